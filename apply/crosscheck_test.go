package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// anyKind is a kind of any registered type, with a status subresource if it has a status.
type anyKind struct {
	resource.Kind
	scheme *runtime.Scheme
	info   resource.Info
}

func (k *anyKind) Info() *resource.Info { return &k.info }

func (k *anyKind) New(gvk schema.GroupVersionKind) resource.Object {
	obj, err := k.scheme.New(gvk)
	if err != nil {
		panic(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj.(resource.Object)
}

func (k *anyKind) ConvertTo(_ context.Context, obj resource.Object, _ schema.GroupVersionKind) (resource.Object, error) {
	return obj, nil
}

func allKinds(t testing.TB) (list []*anyKind) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(all); err != nil {
			t.Fatal(err)
		}
	}
	kinds, _ := builtin()
	for gvk := range kinds {
		k := &anyKind{scheme: all, info: resource.Info{GVK: gvk, Plural: "things"}}
		if _, ok := reflect.TypeOf(k.New(gvk)).Elem().FieldByName("Status"); ok {
			k.info.Subs = []resource.SubInfo{{Name: "status"}}
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b *anyKind) int { return strings.Compare(a.info.GVK.String(), b.info.GVK.String()) })
	return list
}

// filler makes random objects. Few different values make for collisions.
func filler(seed int64) *randfill.Filler {
	words := []string{"", "a", "b", "example.com/x", "TCP", "a b", "x<y", "ä"}
	return randfill.NewWithSeed(seed).NilChance(.5).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) {
			if *s = words[c.Intn(5)]; c.Intn(200) == 0 {
				*s = words[c.Intn(len(words))]
			}
		},
		func(u *k8stypes.UID, c randfill.Continue) { *u = k8stypes.UID(words[c.Intn(4)]) },
		func(n *int32, c randfill.Continue) { *n = int32(c.Intn(4)) },
		func(n *int64, c randfill.Continue) { *n = int64(c.Intn(4)) },
		func(q *apiresource.Quantity, c randfill.Continue) {
			*q = apiresource.MustParse([]string{"1", "1000m", "2Gi"}[c.Intn(3)])
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("1"), intstr.FromString("http")}[c.Intn(3)]
		},
		func(v *metav1.Time, c randfill.Continue) {
			if *v = (metav1.Time{}); c.Bool() {
				*v = metav1.Unix(int64(c.Intn(3))+1, 0)
			}
		},
		func(v *metav1.MicroTime, c randfill.Continue) {
			if *v = (metav1.MicroTime{}); c.Bool() {
				*v = metav1.NewMicroTime(time.Unix(0, int64(c.Intn(3)+1)*1500))
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) {
			r.Raw = []byte(`{"a":` + fmt.Sprint(c.Intn(2)) + `}`)
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte(`{}`)) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = []byte(fmt.Sprint(c.Intn(2))) },
		func(p *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			p.Type, p.Format = words[c.Intn(4)], words[c.Intn(4)]
		},
	)
}

// mutate fills some fields of obj again.
func mutate(obj resource.Object, f *randfill.Filler, r *rand.Rand) {
	keep := obj.GetManagedFields()
	obj.SetManagedFields(nil)
	switch r.Intn(4) {
	case 0:
		other := reflect.New(reflect.TypeOf(obj).Elem())
		f.Fill(other.Interface())
		v := reflect.ValueOf(obj).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "TypeMeta" && r.Intn(2) == 0 {
				v.Field(i).Set(other.Elem().Field(i))
			}
		}
	case 1:
		mutateSome(reflect.ValueOf(obj).Elem(), f, r, 6)
	case 2:
		mutateSome(reflect.ValueOf(obj).Elem(), f, r, 2)
	}
	obj.SetManagedFields(keep)
}

// mutateSome descends at random and fills what it finds.
func mutateSome(v reflect.Value, f *randfill.Filler, r *rand.Rand, width int) {
	for range width {
		at := v
		for range r.Intn(8) {
			switch {
			case at.Kind() == reflect.Pointer && !at.IsNil():
				at = at.Elem()
			case scalarTypes[at.Type()] != nil || at.Type() == reflect.TypeFor[runtime.RawExtension]() ||
				at.Type() == reflect.TypeFor[apiextensionsv1.JSON]():
			case at.Kind() == reflect.Struct && at.NumField() > 0:
				next := at.Field(r.Intn(at.NumField()))
				if !next.CanSet() {
					continue
				}
				at = next
			case at.Kind() == reflect.Slice && at.Len() > 0:
				at = at.Index(r.Intn(at.Len()))
			}
		}
		if at.CanAddr() && at.Kind() != reflect.Interface && at.Type() != reflect.TypeFor[metav1.TypeMeta]() && at.Type() != v.Type() {
			f.Fill(at.Addr().Interface())
		}
	}
}

// rounds is how often each kind is tried.
const rounds = 1

// TestFastPathIsRight updates random objects of every kind, as several managers, and compares the fast path with
// the library, byte by byte.
func TestFastPathIsRight(t *testing.T) {
	tr := NewTracker()
	fast, total := 0, 0
	for i, k := range allKinds(t) {
		for seed := range rounds {
			q, n := crossCheck(t, tr, k, int64(i*rounds+seed))
			fast, total = fast+q, total+n
		}
	}
	t.Logf("%d of %d updates took the fast path", fast, total)
	if fast*10 < total*6 {
		t.Errorf("only %d of %d updates took the fast path", fast, total)
	}
}

func crossCheck(t *testing.T, tr *Tracker, k *anyKind, seed int64) (fast, total int) {
	f, r := filler(seed), rand.New(rand.NewSource(seed))
	w := Write{Kind: k, GVK: k.info.GVK, Now: time.Unix(1000, 0)}
	var old resource.Object
	for range 12 {
		obj := k.New(w.GVK)
		if old != nil {
			obj = resource.Clone(old)
		}
		mutate(obj, f, r)
		keep := obj.GetManagedFields()
		obj.SetManagedFields(nil)
		obj = decoded(t, k, obj)
		obj.SetManagedFields(keep)
		obj.GetObjectKind().SetGroupVersionKind(w.GVK)
		if old == nil {
			obj.SetManagedFields(nil)
		} else {
			obj.SetUID("u")
		}
		w.Manager, w.Sub, w.Now = []string{"a", "b", "c"}[r.Intn(3)], "", w.Now.Add(time.Minute)
		if old != nil && len(k.info.Subs) > 0 && r.Intn(2) == 0 {
			w.Sub = "status"
		}
		stock := resource.Clone(obj)
		m, err := tr.smdFor(&w)
		if err != nil {
			t.Fatal(err)
		}
		total++
		err = m.update(&w, old, stock)
		if tr.fastUpdate(&w, old, obj) {
			fast++
			if err != nil {
				t.Errorf("%s: the library fails: %v", w.GVK, err)
			} else if got, want := show(obj), show(stock); got != want {
				t.Fatalf("%s by %s/%s differs\ngot:\n%s\nwant:\n%s\nold: %s", w.GVK, w.Manager, w.Sub, got, want, show(old)+dump(old)+dump(obj))
			}
		}
		if err != nil { // a state that the library refuses, like a list item without a key
			continue
		}
		stock.SetUID("u")
		old = stock
	}
	return fast, total
}

func show(obj resource.Object) string {
	if obj == nil {
		return ""
	}
	s := ""
	for _, e := range obj.GetManagedFields() {
		s += fmt.Sprintf("%s %s %s %s %v %s\n", e.Manager, e.Operation, e.APIVersion, e.Subresource, e.Time.UTC(), e.FieldsV1.GetRawBytes())
	}
	return s
}

func dump(obj resource.Object) string {
	if obj == nil {
		return "nothing"
	}
	obj = resource.Clone(obj)
	obj.SetManagedFields(nil)
	b, err := codec.MarshalJSON(obj)
	return fmt.Sprintf("\n%s %v", b, err)
}

// decoded returns the object as a client would send it.
func decoded(t *testing.T, k *anyKind, obj resource.Object) resource.Object {
	out := k.New(k.info.GVK)
	doc, err := codec.MarshalJSON(obj)
	if err == nil {
		err = json.Unmarshal(doc, out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	return out
}

package kinds_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/dump"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func newFiller(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.3).NumElements(1, 3).MaxDepth(12).Funcs(
		func(q *apiresource.Quantity, c randfill.Continue) {
			*q = *apiresource.NewMilliQuantity(int64(c.Intn(1e6)), apiresource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.NewTime(time.Unix(int64(c.Intn(1e9)), 0)) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.Unix(int64(c.Intn(1e9)), int64(c.Intn(1e6))*1000))
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(`{"a":1}`) },
		func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(int32(c.Intn(100))) },
		func(t *metav1.TypeMeta, c randfill.Continue) {},
		func(f *metav1.FieldsV1, c randfill.Continue) { f.Raw = []byte(`{"f:a":{}}`) },
	)
}

type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// What is stored, as protobuf or JSON, is what was there.
func TestRoundTrip(t *testing.T) {
	for seed, k := range kinds.All() {
		for _, gvk := range k.Info().Served() {
			f := newFiller(int64(seed))
			for range 5 {
				in := k.New(gvk)
				if gvk.Kind == "CustomResourceDefinition" {
					continue // its schemas hold JSON of any kind, which a filler cannot make
				}
				f.Fill(in)
				throughJSON(t, k, in)
				throughProtobuf(t, k, in)
			}
		}
	}
}

func throughJSON(t *testing.T, k resource.Kind, in resource.Object) {
	gvk := in.GetObjectKind().GroupVersionKind()
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatalf("%s: %v", gvk, err)
	}
	out := k.New(gvk)
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("%s: %v", gvk, err)
	}
	if !equality.Semantic.DeepEqual(in, out) {
		t.Errorf("%s changed on its way through JSON", gvk)
	}
}

func throughProtobuf(t *testing.T, k resource.Kind, in resource.Object) {
	gvk := in.GetObjectKind().GroupVersionKind()
	b, err := in.(protobuf).Marshal()
	if err != nil {
		t.Fatalf("%s: %v", gvk, err)
	}
	out := k.New(gvk)
	if err := out.(protobuf).Unmarshal(b); err != nil {
		t.Fatalf("%s: %v", gvk, err)
	}
	if !equality.Semantic.DeepEqual(in, out) {
		t.Errorf("%s changed on its way through protobuf", gvk)
	}
}

// What is kept of an object that was stored is what reading it back gives, to the last empty list.
func TestAsRead(t *testing.T) {
	for seed, k := range kinds.All() {
		i := k.Info()
		t.Run(i.GR().String(), func(t *testing.T) {
			f := newFiller(int64(seed)).NumElements(0, 2).Funcs(
				func(v *authenticationv1.ExtraValue, _ randfill.Continue) { *v = []string{"a"} }, // of one more type than that of lists
				func(v *authorizationv1.ExtraValue, _ randfill.Continue) { *v = []string{"a"} },
				func(v *certificatesv1.ExtraValue, _ randfill.Continue) { *v = []string{"a"} })
			for range 20 {
				in, out := k.New(i.GVK), k.New(i.GVK)
				if i.KeepsEmpty {
					return
				}
				f.Fill(in)
				resource.AsRead(k, in)
				b, err := in.(protobuf).Marshal()
				if err != nil {
					t.Fatal(err)
				}
				if err := out.(protobuf).Unmarshal(b); err != nil {
					t.Fatal(err)
				}
				if !equality.Semantic.DeepEqualWithNilDifferentFromEmpty(in, out) {
					t.Fatalf("kept %s\nread %s", dump.Pretty(in), dump.Pretty(out))
				}
			}
		})
	}
}

// No code of a kind panics on what a client may send, and defaulting twice is defaulting once.
func TestRandomObjects(t *testing.T) {
	for seed, k := range kinds.All() {
		i := k.Info()
		f := newFiller(int64(seed))
		for range 10 {
			obj, old := k.New(i.GVK), k.New(i.GVK)
			if i.GVK.Kind == "CustomResourceDefinition" {
				continue
			}
			f.Fill(obj)
			f.Fill(old)
			k.SetDefaults(nil, obj)
			k.SetDefaults(nil, old)
			again := resource.Clone(obj)
			k.SetDefaults(nil, again)
			if !reflect.DeepEqual(obj, again) {
				t.Errorf("%s: defaulting a second time changed the object", i.Plural)
			}
			k.Check(nil, nil, "", obj, nil)
			k.Check(nil, nil, "", obj, old)
			k.Rows(nil, nil)(obj)
			for _, label := range k.Info().Selectable {
				k.Field(obj, label)
			}
			k.Warnings(nil, obj, old)
			k.PrepareForWrite(nil, "", resource.Clone(obj), old)
			k.PrepareForWrite(nil, "", resource.Clone(obj), nil)
			for _, s := range i.Subs {
				if s.Name == "status" {
					k.Check(nil, nil, "status", obj, old)
				}
			}
		}
	}
}

// A version that another group or an older client sees says the same.
func TestConversions(t *testing.T) {
	for seed, k := range kinds.All() {
		i := k.Info()
		for _, gvk := range i.Also {
			f := newFiller(int64(seed))
			for range 20 {
				in := k.New(gvk)
				f.Fill(in)
				dropKept(in)
				hub, err := k.ConvertTo(context.Background(), in, i.GVK)
				if err != nil {
					t.Fatal(err)
				}
				out, err := k.ConvertTo(context.Background(), hub, gvk)
				if err != nil {
					t.Fatal(err)
				}
				delete(out.GetAnnotations(), "autoscaling.alpha.kubernetes.io/current-metrics") // says more than the field that it came from
				if !equality.Semantic.DeepEqual(in, out) {
					a, _ := json.Marshal(in)
					b, _ := json.Marshal(out)
					t.Errorf("%s changed on its way through %s:\n%s\n%s", gvk, i.GVK, a, b)
				}
			}
		}
	}
}

func dropKept(o resource.Object) {
	m := o.GetAnnotations()
	for k := range m {
		if strings.Contains(k, "autoscaling") {
			delete(m, k)
		}
	}
}

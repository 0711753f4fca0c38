package apply

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/resource"
)

// customKind is a custom resource kept as maps.
type customKind struct {
	resource.Kind
	info resource.Info
}

func (k *customKind) Info() *resource.Info { return &k.info }

func (k *customKind) New(gvk schema.GroupVersionKind) resource.Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	return u
}

func (k *customKind) ConvertTo(_ context.Context, obj resource.Object, gvk schema.GroupVersionKind) (resource.Object, error) {
	obj = resource.Clone(obj)
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

func widgets() *customKind {
	return &customKind{info: resource.Info{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
		Plural: "widgets", Custom: true, Namespaced: true, Subs: []resource.SubInfo{{Name: "status"}}}}
}

const widgetSchema = `{"type":"object","properties":{
 "spec":{"type":"object","properties":{
  "n":{"type":"integer"},"s":{"type":"string"},"b":{"type":"boolean"},"f":{"type":"number"},
  "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
  "atoms":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}},
  "rows":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name","kind"],
    "items":{"type":"object","required":["name"],
    "properties":{"name":{"type":"string"},"kind":{"type":"string","default":"x"},"v":{"type":"integer"}}}},
  "atom":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"},"b":{"type":"string"}}},
  "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
  "port":{"x-kubernetes-int-or-string":true},
  "map":{"type":"object","additionalProperties":{"type":"string"}}}},
 "status":{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}}}}}`

func widgetTracker(t testing.TB, known bool) *Tracker {
	tr := NewTracker()
	if known {
		s := &spec.Schema{}
		if err := s.UnmarshalJSON([]byte(widgetSchema)); err != nil {
			t.Fatal(err)
		}
		if err := tr.SetSchema(widgets().info.GVK, s); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

// pick returns one of the values, or half of the time nothing.
func pick(r *rand.Rand, m map[string]any, name string, values ...any) {
	if r.Intn(2) == 0 {
		m[name] = runtime.DeepCopyJSONValue(values[r.Intn(len(values))])
	}
}

func randomWidget(r *rand.Rand) map[string]any {
	spec, status, meta := map[string]any{}, map[string]any{}, map[string]any{"name": "a"}
	list := func(v ...any) any { return v }
	row := func(kv ...any) any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	pick(r, spec, "n", int64(1), int64(2))
	pick(r, spec, "s", "a", "b", "")
	pick(r, spec, "b", true, false)
	pick(r, spec, "f", 1.5, int64(2), 2.0)
	pick(r, spec, "set", list("a"), list("a", "b"), list("b", "a", "c"), list(), list("ä"))
	pick(r, spec, "atoms", list(), list(row("a", "x")), list(row("a", "y"), row()))
	pick(r, spec, "rows", list(row("name", "a", "v", int64(1))), list(row("name", "b", "kind", "y"), row("name", "a")),
		list(row("name", "a", "kind", "x", "v", int64(2))), list(), list(row("name", "a"), row("name", "a")))
	pick(r, spec, "atom", row("a", "1"), row("a", "1", "b", "2"), row())
	pick(r, spec, "free", row("x", int64(1)), row("x", row("y", "z")), row("x", list(int64(1), "b")), row(),
		row("x", row("y", "z", "w", true)))
	pick(r, spec, "port", int64(80), "http")
	pick(r, spec, "map", row("a", "1"), row("b", "2", "a", "1"), row())
	pick(r, status, "n", int64(1), int64(2))
	pick(r, status, "s", "a", nil)
	pick(r, meta, "labels", row("a", "1"), row("b", "2"))
	pick(r, meta, "finalizers", list("x/a"), list("x/b", "x/a"))
	obj := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta}
	pick(r, obj, "spec", spec)
	pick(r, obj, "status", status)
	return obj
}

// TestUntypedIsRight updates random custom resources, of a known type and of an unknown one, and compares the fast path
// with the library.
func TestUntypedIsRight(t *testing.T) {
	k := widgets()
	fast, total := 0, 0
	for _, known := range []bool{true, false} {
		tr := widgetTracker(t, known)
		for seed := range int64(200) {
			r := rand.New(rand.NewSource(seed))
			w := Write{Kind: k, GVK: k.info.GVK, Now: time.Unix(1000, 0)}
			var old resource.Object
			for range 8 {
				w.Now, w.Manager, w.Sub = w.Now.Add(time.Minute), fmt.Sprint(r.Intn(3)), []string{"", "", "status"}[r.Intn(3)]
				obj := resource.Object(&unstructured.Unstructured{Object: randomWidget(r)})
				if old != nil {
					obj.SetUID("u")
					obj.SetManagedFields(old.GetManagedFields())
				} else {
					w.Sub = ""
				}
				stock := resource.Clone(obj)
				m, err := tr.smdFor(&w)
				if err != nil {
					t.Fatal(err)
				}
				err = m.update(&w, old, stock)
				total++
				if tr.fastUpdate(&w, old, obj) {
					fast++
					if err != nil {
						t.Fatalf("the library fails: %v", err)
					}
					if got, want := show(obj), show(stock); got != want {
						t.Fatalf("got:\n%s\nwant:\n%s\n%s%s", got, want, dump(old), dump(obj))
					}
				}
				if err == nil {
					stock.SetUID("u")
					old = stock
				}
			}
		}
	}
	t.Logf("%d of %d updates took the fast path", fast, total)
	if fast*2 < total {
		t.Errorf("only %d of %d updates took the fast path", fast, total)
	}
}

// TestUntypedNothing applies random custom resources again, and checks with the library what is said to change
// nothing.
func TestUntypedNothing(t *testing.T) {
	k := widgets()
	hits, total := 0, 0
	for _, known := range []bool{true, false} {
		tr := widgetTracker(t, known)
		for seed := range int64(300) {
			r := rand.New(rand.NewSource(seed))
			w := Write{Kind: k, GVK: k.info.GVK, Manager: "m", Now: time.Unix(1000, 0)}
			doc := randomWidget(r)
			m, err := tr.smdFor(&w)
			if err != nil {
				t.Fatal(err)
			}
			if r.Intn(2) == 0 {
				disturb(r, doc)
			}
			old, err := m.apply(&w, nil, runtime.DeepCopyJSON(doc), false)
			compareCreate(t, tr, &w, doc, old, err)
			if err != nil {
				continue
			}
			old.SetUID("u")
			for range 6 {
				if total++; r.Intn(3) == 0 {
					disturb(r, doc)
				}
				w.Now = w.Now.Add(time.Minute)
				compareChange(t, tr, m, &w, old, doc)
				if !tr.appliesNothing(&w, old, doc) {
					continue
				}
				hits++
				out, err := m.apply(&w, old, runtime.DeepCopyJSON(doc), false)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := show(out)+dump(out), show(old)+dump(old); got != want {
					t.Fatalf("nothing to change, but it did:\n%s\n%s\n%v", want, got, doc)
				}
			}
		}
	}
	t.Logf("%d of %d applies were seen to change nothing", hits, total)
	if hits*4 < total {
		t.Errorf("only %d of %d", hits, total)
	}
}

func TestCustomSchema(t *testing.T) {
	for known, want := range map[bool]string{
		true: `{"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{".":{},"f:rows":{".":{},"k:{\"kind\":\"x\",\"name\":\"a\"}":{".":{},` +
			`"f:name":{}}}}}`,
		false: `{"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{".":{},"f:rows":{}}}`,
	} {
		h := begin(t, widgets())
		h.tr = widgetTracker(t, known)
		h.update("a", "", `{"metadata":{"name":"w","labels":{"l":"1"}},"spec":{"rows":[{"name":"a"}]},"status":{"n":1}}`)
		h.want("a Update/@1 " + want)
	}
	// Appliers of different rows do not fight when the type is known.
	h := begin(t, widgets())
	h.tr = widgetTracker(t, true)
	for _, name := range []string{"a", "b"} {
		if err := h.apply(name, "", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"rows":[{"name":"`+
			name+`"}]}}`, false); err != nil {
			t.Fatal(err)
		}
	}
	rows, _, _ := unstructured.NestedSlice(h.obj.(*unstructured.Unstructured).Object, "spec", "rows")
	if len(rows) != 2 {
		t.Errorf("rows %v", rows)
	}
	if err := h.tr.SetSchema(widgets().info.GVK, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.apply("c", "", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"rows":[{"name":"c"}]}}`,
		false); err != nil {
		t.Fatal(err)
	}
	if rows, _, _ = unstructured.NestedSlice(h.obj.(*unstructured.Unstructured).Object, "spec", "rows"); len(rows) != 1 {
		t.Errorf("a list of an unknown type is not replaced: %v", rows)
	}
}

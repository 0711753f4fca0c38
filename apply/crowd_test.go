package apply

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What the library would spend a minute on, putting each field where it belongs among all before, is not given to it: who applies is
// refused, and who updates gets an object without owners.
func TestCrowds(t *testing.T) {
	widget := widgets()
	crowd := func(n int) map[string]any {
		m := map[string]any{}
		for i := range n {
			m[fmt.Sprint("k", i)] = "x"
		}
		return m
	}
	words := func(n int) (list []any) {
		for i := range n {
			list = append(list, fmt.Sprint(n-i))
		}
		return list
	}
	const many = maxCrowd + 1
	for _, tt := range []struct {
		name string
		spec map[string]any
		too  bool
	}{
		{"few", map[string]any{"free": map[string]any{"v": crowd(10)}}, false},
		{"a list that is owned as a whole", map[string]any{"free": map[string]any{"v": words(many)}}, false},
		{"fields", map[string]any{"free": map[string]any{"v": crowd(many)}}, true},
		{"in two maps", map[string]any{"free": map[string]any{"v": crowd(many * 3 / 4), "b": crowd(many * 3 / 4)}}, true},
		{"a map of many types", map[string]any{"map": crowd(many)}, true},
		{"a set", map[string]any{"set": words(many / 3)}, true},
		{"a smaller set", map[string]any{"set": words(many / 40)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr, w := widgetTracker(t, true), Write{Kind: widget, GVK: widget.info.GVK, Manager: "m"}
			object := func(spec map[string]any) map[string]any {
				return map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"},
					"spec": spec}
			}
			old := &unstructured.Unstructured{Object: object(map[string]any{"free": map[string]any{"v": "text"}, "s": "a"})}
			old.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "o", Operation: "Update", APIVersion: "example.com/v1",
				FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:free":{"f:v":{}},"f:s":{}}}`)}}})
			spec := maps.Clone(tt.spec)
			spec["s"] = "b"
			_, err := tr.Apply(w, old, &Configuration{doc: object(spec)}, true)
			if refused := apierrors.IsRequestEntityTooLargeError(err); refused != tt.too || err != nil && !refused {
				t.Errorf("apply: %v", err)
			}
			if _, other := tt.spec["free"]; !other {
				return // the library is not asked about an update
			}
			next := &unstructured.Unstructured{Object: object(spec)}
			err = tr.Update(w, old, next)
			writes := slices.ContainsFunc(next.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "m" })
			if err != nil || len(next.GetManagedFields()) == 0 || writes == tt.too {
				t.Errorf("update: owners %v, %v", next.GetManagedFields(), err)
			}
		})
	}
}

// The same of a built-in kind, whose objects are no trees.
func TestCrowdsOfStructs(t *testing.T) {
	for n, refused := range map[int]bool{10: false, maxCrowd + 1: true} {
		h, notes := begin(t, deploys), map[string]string{}
		for i := range n {
			notes[fmt.Sprint("k", i)] = "x"
		}
		d := &appsv1.Deployment{}
		d.Name, d.Annotations, h.obj = "d", notes, d
		err := h.apply("m", "", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"a":"b"}}}`, false)
		if apierrors.IsRequestEntityTooLargeError(err) != refused || err != nil && !refused {
			t.Errorf("%d annotations: %v", n, err)
		}
	}
}

package server_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
)

// Of a name that could be made an update says no more than whether it can stand in a path, but for what the kind's own rules say.
func TestGenerateNameOfUpdates(t *testing.T) {
	w := start(t)
	obj := resource.Clone(create(w, configMaps, configMap("a", "k", "1")))
	for name, want := range map[string]string{
		"Bad_word!": "Invalid FieldValueInvalid metadata.generateName",
		"a/b":       "Invalid FieldValueInvalid metadata.generateName FieldValueInvalid metadata.generateName",
	} {
		t.Run(name, func(t *testing.T) {
			obj.SetGenerateName(name)
			if _, _, err := w.Update(t.Context(), w.ask(configMaps, "a"), obj); reason(err) != want {
				t.Errorf("%s: %s, want %s", name, reason(err), want)
			}
		})
	}
}

// TestGenerateNameLast: of kinds whose own rules don't look at generateName the generic ones do, of an object that has another name, too.
func TestGenerateNameLast(t *testing.T) {
	w := start(t)
	for name, want := range map[string]string{"..": "", "a/b": "Invalid FieldValueInvalid metadata.generateName"} {
		t.Run(name, func(t *testing.T) {
			rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "r", GenerateName: name}}
			if _, err := w.Create(t.Context(), w.ask(jobs, ""), rc); reason(err) != want {
				t.Errorf("%q, want %q", reason(err), want)
			}
		})
	}
}

// A patch of an object without a namespace may name one: it is not heard.
func TestNamespaceOfNone(t *testing.T) {
	w := start(t)
	create(w, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	patch := []byte(`{"metadata":{"namespace":"x","labels":{"a":"b"}}}`)
	e, _, err := w.Patch(t.Context(), w.ask(namespaces, "n"), types.MergePatchType, patch, false)
	if err != nil || e.Object.GetNamespace() != "" || e.Object.GetLabels()["a"] != "b" {
		t.Errorf("%v, %v", e, err)
	}
}

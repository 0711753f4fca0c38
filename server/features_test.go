package server_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// TestEmulation writes to a front door of 1.36: rules and fields depend on the version that its set of kinds is for.
func TestEmulation(t *testing.T) {
	gated := &resource.Def[*corev1.ConfigMap]{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Plural: "configmaps", Namespaced: true,
		Gated: resource.Gated[*corev1.ConfigMap]{
			Drop: func(on *features.Set, obj, _ *corev1.ConfigMap) {
				if !on.AtLeast(37) {
					obj.BinaryData = nil
				}
			},
			Validate: func(on *features.Set, _, _ *corev1.ConfigMap) field.ErrorList {
				if on.On("WatchList") {
					return nil
				}
				return field.ErrorList{field.Forbidden(field.NewPath("data"), "")}
			},
			Warn: func(on *features.Set, _, _ *corev1.ConfigMap) []string { return []string{on.String()} },
		}}
	for _, test := range []struct {
		name          string
		minor         int
		asked         map[string]bool
		plain, orphan string
		kept          bool
	}{
		{"1.37", 37, nil, "", "Invalid FieldValueInvalid metadata.ownerReferences[0].apiVersion", true},
		{"1.36", 36, nil, "", "Invalid FieldValueInvalid metadata.ownerReferences.apiVersion", false},
		{"1.36 without a gate", 36, map[string]bool{"WatchList": false}, "Invalid FieldValueForbidden data",
			"Invalid FieldValueInvalid metadata.ownerReferences.apiVersion FieldValueForbidden data", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			on, err := features.New(test.minor, test.asked)
			if err != nil {
				t.Fatal(err)
			}
			w := start(t, func(c *testcluster.Config) {
				c.Kinds = resource.For(on, nil, gated)
				c.View = view.NewWith(c.Kinds, view.Config{Guard: true})
			})
			plain := configMap("a")
			plain.BinaryData = map[string][]byte{"b": {1}}
			e, err := w.Create(t.Context(), w.ask(gated, ""), plain)
			if reason(err) != test.plain {
				t.Errorf("%s %v: got %v, want %q", on, test.asked, err, test.plain)
			}
			if err == nil && (e.Object.(*corev1.ConfigMap).BinaryData != nil) != test.kept {
				t.Errorf("%s: %v", on, e.Object)
			}
			if err == nil && w.warns[0] != on.String() {
				t.Errorf("%s: warned %v", on, w.warns)
			}
			orphan := configMap("b")
			orphan.OwnerReferences = []metav1.OwnerReference{{APIVersion: "a/b/c", Kind: "Pod", Name: "p", UID: "u"}}
			if _, err := w.Create(t.Context(), w.ask(gated, ""), orphan); reason(err) != test.orphan {
				t.Errorf("%s: got %v, want %q", on, err, test.orphan)
			}
		})
	}
}

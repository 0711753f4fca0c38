package server_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// TestSelectableSince37: a field label that came with 1.37 is refused before.
func TestSelectableSince37(t *testing.T) {
	const label = "spec.new"
	labelled := &resource.Def[*corev1.ConfigMap]{GVK: configMaps.GVK, Plural: configMaps.Plural, Namespaced: true,
		Select: []resource.Field[*corev1.ConfigMap]{{Label: label, Value: func(*corev1.ConfigMap) string { return "x" }}},
		Quirks: resource.Quirks{Unselectable36: []string{label}}}
	for minor, want := range map[int]string{36: "BadRequest", 37: ""} {
		t.Run(map[int]string{36: "1.36", 37: "1.37"}[minor], func(t *testing.T) {
			on, err := features.New(minor, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := start(t, func(c *testcluster.Config) {
				c.Kinds = resource.For(on, nil, namespaces, labelled)
				c.View = view.NewWith(c.Kinds, view.Config{})
			})
			create(w, labelled, configMap("a"))
			l, err := w.list(labelled, metav1.ListOptions{FieldSelector: label + "=x"})
			if reason(err) != want || err == nil && len(l.Entries) != 1 {
				t.Errorf("%v, %v", l, err)
			}
		})
	}
}

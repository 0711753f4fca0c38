package server_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// TestWhenToAskAgain: a revision that is not there yet is worth another try where upstream reads from its caches: not at one very
// revision, and not of events.
func TestWhenToAskAgain(t *testing.T) {
	uncached := &resource.Def[*corev1.ConfigMap]{GVK: configMaps.GVK, Plural: configMaps.Plural, Namespaced: true,
		Quirks: resource.Quirks{Uncached: true}}
	const future = "99999999"
	for _, c := range []struct {
		name string
		kind resource.Kind
		opts metav1.ListOptions
		want bool
	}{
		{"plain", configMaps, metav1.ListOptions{}, true},
		{"not older, in pages", configMaps, metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, Limit: 1}, true},
		{"exact", configMaps, metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}, false},
		{"in pages", configMaps, metav1.ListOptions{Limit: 1}, false},
		{"of no cache", uncached, metav1.ListOptions{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, func(config *testcluster.Config) {
					config.Kinds = resource.NewSet(namespaces, c.kind)
					config.View = view.NewWith(config.Kinds, view.Config{})
				})
				c.opts.ResourceVersion = future
				_, err := w.list(c.kind, c.opts)
				if seconds, soon := apierrors.SuggestsClientDelay(err); !apierrors.IsTimeout(err) || soon != c.want {
					t.Errorf("list: again after %d s: %v", seconds, err)
				}
				_, err = w.Get(t.Context(), w.ask(c.kind, "x"), &metav1.GetOptions{ResourceVersion: future})
				if seconds, soon := apierrors.SuggestsClientDelay(err); !apierrors.IsTimeout(err) || soon != (c.kind == resource.Kind(configMaps)) {
					t.Errorf("get: again after %d s: %v", seconds, err)
				}
			})
		})
	}
}

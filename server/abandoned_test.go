package server_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A list whose client goes in the middle looks at few objects more. Objects are counted, not time.
func TestAbandonedListEnds(t *testing.T) {
	const objects, enough = 3000, 10
	var looked atomic.Int32
	gone := func() {}
	kind := &resource.Def[*corev1.ConfigMap]{GVK: configMaps.GVK, Plural: configMaps.Plural, Namespaced: true,
		Select: []resource.Field[*corev1.ConfigMap]{{Label: "data.n", Value: func(c *corev1.ConfigMap) string {
			if looked.Add(1) == enough {
				gone()
			}
			return c.Data["n"]
		}}}}
	w := start(t, func(c *testcluster.Config) {
		c.Kinds = resource.For(nil, nil, kind)
		c.View = view.NewWith(c.Kinds, view.Config{Guard: true})
	})
	for i := range objects {
		create(w, kind, configMap(fmt.Sprintf("c%04d", i)))
	}
	for _, opts := range []metav1.ListOptions{{FieldSelector: "data.n=x"}, {FieldSelector: "data.n=x", ResourceVersion: "0"},
		{FieldSelector: "data.n=x", Limit: 5}} {
		ctx, cancel := context.WithCancel(t.Context())
		looked.Store(0)
		gone = cancel
		if _, err := w.List(ctx, w.ask(kind, ""), &opts); err == nil {
			t.Errorf("%+v: a list that nobody waits for ends well", opts)
		}
		if n := looked.Load(); n < enough || n > enough+300 {
			t.Errorf("%+v: %d of %d objects were looked at, and the client was gone after %d", opts, n, objects, enough)
		}
		cancel()
	}
}

// A collection whose client has gone is deleted no further, not even in a dry run, which writes nothing that could fail.
func TestAbandonedDeletionEnds(t *testing.T) {
	w := start(t)
	for i := range 3 {
		create(w, configMaps, configMap(fmt.Sprintf("c%d", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, dry := range [][]string{nil, {metav1.DryRunAll}} {
		if _, err := w.DeleteCollection(ctx, w.ask(configMaps, ""), &metav1.DeleteOptions{DryRun: dry}, nil); err == nil {
			t.Errorf("dry run %v: a deletion that nobody waits for ends well", dry)
		}
	}
	if l, err := w.List(t.Context(), w.ask(configMaps, ""), nil); err != nil || len(l.Entries) != 3 {
		t.Errorf("%v, %v, want all three", l, err)
	}
}

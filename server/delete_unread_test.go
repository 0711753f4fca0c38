package server_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/store"
)

// nobody may do anything.
type nobody struct{}

func (nobody) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	return auth.Deny, "", nil
}

// TestDeleteUnread: what can't be read can be deleted by who says so and may.
func TestDeleteUnread(t *testing.T) {
	w := start(t)
	yes := true
	opts := &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
	remove := func(name string) string {
		_, _, err := w.Delete(t.Context(), w.ask(configMaps, name), opts)
		return reason(err)
	}
	create(w, configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fine"}})
	secured := &resource.Def[*corev1.ConfigMap]{GVK: configMaps.GVK, Plural: configMaps.Plural, Namespaced: true,
		Quirks: resource.Quirks{KeptUnread: true}}
	if got := remove("fine"); got[:8] != "Conflict" {
		t.Errorf("one that can be read: %s", got)
	}
	_, _, err := w.Delete(t.Context(), w.ask(secured, "r"), opts)
	if err == nil || !strings.Contains(err.Error(), "no unsafe deleter provided") {
		t.Errorf("of a kind that is kept: %v", err)
	}
	if got := remove("none"); got[:8] != "NotFound" {
		t.Errorf("none: %s", got)
	}
	key := configMaps.Info().Key("ns", "broken")
	if _, err := w.Store.Write(t.Context(), store.Write{Key: key, Value: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Delete(t.Context(), w.ask(configMaps, "broken"), nil); reason(err)[:8] != "NotFound" {
		t.Errorf("without the option: %v", err)
	}
	w.Authorize = nobody{}
	if got := remove("broken"); got[:9] != "Forbidden" {
		t.Errorf("who may not: %s", got)
	}
	w.Authorize = nil
	if got := remove("broken"); got != "" {
		t.Errorf("broken: %s", got)
	}
	if kv, _, err := w.Store.Get(t.Context(), key); kv != nil || err != nil {
		t.Errorf("still there: %v %v", kv, err)
	}
	if _, err := w.DeleteCollection(t.Context(), w.ask(configMaps, ""), opts, nil); reason(err)[:7] != "Invalid" {
		t.Errorf("a collection: %v", err)
	}
}

// TestDeleteUnreadOff: without the feature the option says nothing.
func TestDeleteUnreadOff(t *testing.T) {
	off, err := features.New(37, map[string]bool{"AllowUnsafeMalformedObjectDeletion": false})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, func(c *testcluster.Config) { c.Kinds = resource.For(off, nil, c.Kinds.All()...) })
	create(w, configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fine"}})
	yes := true
	if _, _, err := w.Delete(t.Context(), w.ask(configMaps, "fine"),
		&metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}); err != nil {
		t.Error(err)
	}
}

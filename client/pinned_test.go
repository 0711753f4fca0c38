package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// The copy of a single object follows it by a watch of its own, and Get answers from it.
func TestPinned(t *testing.T) {
	a := serve(t, stream{events: []string{said("ADDED", "a", 3), said("END", "", 5)}},
		stream{events: []string{said("MODIFIED", "a", 6)}},
		stream{events: []string{said("DELETED", "a", 7)}, stay: true})
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "test")
	if err != nil {
		t.Fatal(err)
	}
	p := client.NewPinned(r)
	changes := make(chan string, 10)
	p.OnChange(func(k resource.Kind, obj resource.Object) { changes <- obj.GetName() + "@" + obj.GetResourceVersion() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, func() {}) }()
	p.Keep([]client.Ref{{Kind: kinds.ConfigMaps, Namespace: "ns", Name: "a"}})
	for i, want := range []string{"a@3", "a@6", "a@6"} {
		asked := <-a.asked
		if got := asked.Get("fieldSelector"); got != "metadata.name=a" {
			t.Errorf("watch %d is of %q", i, got)
		}
		if got := <-changes; got != want {
			t.Errorf("change %d: %s, want %s", i, got, want)
		}
	}
	if obj, err := p.Get(ctx, kinds.ConfigMaps, "ns", "a"); !apierrors.IsNotFound(err) {
		t.Errorf("what was deleted is %v, %v", obj, err)
	}
	p.Keep(nil)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A copy that was not complete yet, and objects that are not pinned, are asked for.
func TestPinnedAsks(t *testing.T) {
	a := serve(t, stream{code: 404})
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "test")
	if err != nil {
		t.Fatal(err)
	}
	p := client.NewPinned(r)
	p.Keep([]client.Ref{{Kind: kinds.ConfigMaps, Namespace: "ns", Name: "a"}}) // before Run: nothing is there yet
	if _, err := client.Find[*corev1.ConfigMap](t.Context(), p, kinds.ConfigMaps, "ns", "a"); err == nil {
		t.Error("nobody was asked")
	}
	<-a.asked
}

// The copies of a set of objects follow all of them, also what went while nobody watched.
func TestPinnedSet(t *testing.T) {
	a := serve(t, stream{events: []string{said("ADDED", "a", 3), said("ADDED", "b", 4), said("END", "", 5)}},
		stream{events: []string{said("MODIFIED", "a", 6), said("DELETED", "b", 7), said("ADDED", "c", 8)}},
		stream{events: []string{gone}},
		stream{events: []string{said("ADDED", "c", 8), said("END", "", 9)}, stay: true})
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "test")
	if err != nil {
		t.Fatal(err)
	}
	p, set := client.NewPinned(r), client.Ref{Kind: kinds.ConfigMaps, Fields: "metadata.namespace=ns"}
	changes := make(chan string, 10)
	p.OnChange(func(k resource.Kind, obj resource.Object) {
		list, complete := p.List(set)
		changes <- fmt.Sprintf("%s of %d %v", obj.GetName(), len(list), complete)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, func() {}) }()
	if list, complete := p.List(set); complete || list != nil {
		t.Error("a set that nobody keeps is complete")
	}
	p.Keep([]client.Ref{set})
	for i, want := range []string{"a of 2 true", "b of 2 true", "a of 2 true", "b of 1 true", "c of 2 true", "c of 1 true", "a of 1 true"} {
		if got := <-changes; got != want {
			t.Errorf("change %d: %s, want %s", i, got, want)
		}
	}
	if got := (<-a.asked).Get("fieldSelector"); got != "metadata.namespace=ns" {
		t.Errorf("the watch is of %q", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

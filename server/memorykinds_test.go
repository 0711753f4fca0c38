package server_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// notes are config maps that nobody stores.
var notes = &resource.Def[*corev1.ConfigMap]{GVK: corev1.SchemeGroupVersion.WithKind("Note"), Plural: "notes", Namespaced: true,
	Virtual: true, Storage: "notes", JSON: true, Verbs: []string{"get", "list", "watch"}}

func note(name, text string) resource.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"text": text}}}
}

func asked(name string) *server.Request {
	return &server.Request{Kind: notes, GVK: notes.GVK, Namespace: "a", Name: name}
}

func TestShelf(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	refreshed := 0
	s := server.NewMemoryKinds(func(context.Context, resource.Kind) error { refreshed++; return nil }, notes)
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	change := func(put, off []resource.Object) {
		t.Helper()
		if err := s.Change(t.Context(), notes, put, off); err != nil {
			t.Fatal(err)
		}
	}
	change([]resource.Object{note("x", "1"), note("y", "2")}, []resource.Object{note("never", "")})
	l, err := s.List(ctx, asked(""), &metav1.ListOptions{LabelSelector: "text=2"})
	if err != nil || len(l.Entries) != 1 || l.Entries[0].Object.GetName() != "y" {
		t.Fatalf("list: %v, %v", l, err)
	}
	var told []string
	done := make(chan error, 1)
	go func() {
		opts := &metav1.ListOptions{ResourceVersion: l.Entries[0].Object.GetResourceVersion()}
		done <- s.Watch(ctx, asked(""), opts, func(events []server.Event) error {
			for _, e := range events {
				told = append(told, string(e.Type)+" "+e.Entry.Object.GetName())
			}
			if len(told) == 2 {
				stop()
			}
			return nil
		})
	}()
	change([]resource.Object{note("x", "3")}, []resource.Object{note("y", "")})
	if err := <-done; err != nil || len(told) != 2 || told[0] != "MODIFIED x" || told[1] != "DELETED y" {
		t.Fatalf("watch told %q, %v", told, err)
	}
	<-ended
	if refreshed != 2 {
		t.Errorf("refreshed %d times by 2 reads", refreshed)
	}
}

// What clients remember of an earlier process is too old, and nobody but the process changes them.
func TestShelfRefuses(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s := server.NewMemoryKinds(nil, notes)
	ready := make(chan struct{})
	go func() { _ = s.Run(ctx, func() { close(ready) }) }()
	<-ready
	err := s.Watch(ctx, asked(""), &metav1.ListOptions{ResourceVersion: "1000"}, func([]server.Event) error { return nil })
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from long ago: %v", err)
	}
	if _, err := s.Create(ctx, asked("z"), note("z", "")); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("create: %v", err)
	}
	if _, err := s.Get(ctx, asked("z"), nil); !apierrors.IsNotFound(err) {
		t.Errorf("get: %v", err)
	}
}

func TestComputedKind(t *testing.T) {
	ops := server.ComputedKind(func(_ context.Context, _ resource.Kind, ns, name string) ([]resource.Object, error) {
		if ns == "down" {
			return nil, apierrors.NewServiceUnavailable("no metrics yet")
		}
		if name == "z" {
			return nil, apierrors.NewNotFound(corev1.Resource("notes"), name)
		}
		return []resource.Object{note("x", "1"), note("y", "2")}, nil
	})
	e, err := ops.Get(t.Context(), asked("y"), nil)
	if err != nil || e.Object.GetLabels()["text"] != "2" {
		t.Errorf("get: %v, %v", e, err)
	}
	l, err := ops.List(t.Context(), asked(""), &metav1.ListOptions{FieldSelector: "metadata.name=x"})
	if err != nil || len(l.Entries) != 1 {
		t.Errorf("list: %v, %v", l, err)
	}
	if l, err = ops.List(t.Context(), asked(""), &metav1.ListOptions{FieldSelector: "metadata.name=z"}); err != nil || len(l.Entries) != 0 {
		t.Errorf("list of none: %v, %v", l, err)
	}
	r := asked("")
	r.Namespace = "down"
	if _, err := ops.List(t.Context(), r, nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("list of what can't be computed: %v", err)
	}
	if err := ops.Watch(t.Context(), asked(""), nil, nil); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("watch: %v", err)
	}
}

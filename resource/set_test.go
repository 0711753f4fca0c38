package resource_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

func eventKind() *resource.Def[*corev1.Event] {
	return &resource.Def[*corev1.Event]{
		GVK: corev1.SchemeGroupVersion.WithKind("Event"), Plural: "events", Namespaced: true,
		Also: []resource.Version[*corev1.Event]{{
			GVK:  eventsv1.SchemeGroupVersion.WithKind("Event"),
			New:  func() resource.Object { return &eventsv1.Event{} },
			From: func(e *corev1.Event) resource.Object { return &eventsv1.Event{Note: e.Message} },
			To:   func(o resource.Object) *corev1.Event { return &corev1.Event{Message: o.(*eventsv1.Event).Note} },
		}},
	}
}

// A kind may be served under a second group: it is found by either name and stored once.
func TestSecondGroup(t *testing.T) {
	events := eventKind()
	s := resource.NewSet(events)
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, eventsv1.SchemeGroupVersion} {
		k, gvk, ok := s.Resource(gv.WithResource("events"))
		if !ok || k != resource.Kind(events) || gvk != gv.WithKind("Event") {
			t.Errorf("events of %s: got %v, %v", gv, gvk, ok)
		}
		if _, ok := s.GR(schema.GroupResource{Group: gv.Group, Resource: "events"}); !ok {
			t.Errorf("no resource events in %q", gv.Group)
		}
		if _, ok := s.GroupKind(schema.GroupKind{Group: gv.Group, Kind: "Event"}); !ok {
			t.Errorf("no kind Event in %q", gv.Group)
		}
		if _, ok := s.Kind(gvk); !ok {
			t.Errorf("no kind %s", gvk)
		}
	}
	if g := s.Groups(); len(g) != 2 || g[1] != "events.k8s.io" {
		t.Errorf("groups %q", g)
	}
	if len(s.All()) != 1 {
		t.Errorf("%d kinds, want one", len(s.All()))
	}
	s.Remove(events.Info().GR())
	if _, _, ok := s.Resource(eventsv1.SchemeGroupVersion.WithResource("events")); ok {
		t.Error("removing the kind left its second group")
	}
}

func TestClashes(t *testing.T) {
	sets := &resource.Def[*appsv1.ReplicaSet]{GVK: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), Plural: "replicasets"}
	other := &resource.Def[*appsv1beta1.Deployment]{GVK: appsv1beta1.SchemeGroupVersion.WithKind("ReplicaSet"), Plural: "replicasets"}
	rival := &resource.Def[*eventsv1.Event]{GVK: eventsv1.SchemeGroupVersion.WithKind("Event"), Plural: "events"}
	for name, list := range map[string][]resource.Kind{
		"same kind twice": {sets, sets}, "two kinds for a resource": {sets, other}, "second group taken": {eventKind(), rival},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			resource.NewSet(list...)
		})
	}
}

func TestName(t *testing.T) {
	d := &resource.Def[*corev1.Event]{GVK: corev1.SchemeGroupVersion.WithKind("Event"), Plural: "events",
		Columns: []resource.Column[*corev1.Event]{
			resource.Col("Type", "string", func(e *corev1.Event) any { return e.Type }),
			resource.Name(func(e *corev1.Event) any { return e.Name + "!" }),
		}}
	e := &corev1.Event{Type: "Normal"}
	e.Name = "x"
	if h := d.Header(nil); len(h) != 2 || h[1].Name != "Name" {
		t.Errorf("header %v", h)
	}
	if r := d.Rows(nil, nil)(e); len(r) != 2 || r[1] != "x!" {
		t.Errorf("row %v", r)
	}
}

package gaps

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// shelf is a store for tests.
type shelf map[string]bool

func (s shelf) Watched() bool { return false }

func (s shelf) Change(ctx context.Context, _ resource.Kind, put, off []resource.Object) error {
	for _, o := range put {
		s[o.GetName()] = true
	}
	for _, o := range off {
		delete(s, o.GetName())
	}
	return ctx.Err()
}

// What is too young to have a gap when it is first looked at has one later, though nothing changes.
func TestRipens(t *testing.T) {
	set := kinds.NewSet()
	v := view.New(set)
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now)}
	}
	leaving := &corev1.ConfigMap{ObjectMeta: meta("leaving")}
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.NewTime(now)), []string{"example.com/stays"}
	ports := []corev1.ServicePort{{Port: 1}}
	bare := &corev1.Service{ObjectMeta: meta("bare"), Spec: corev1.ServiceSpec{Ports: ports}}
	selecting := &corev1.Service{ObjectMeta: meta("selecting"), Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"},
		Ports: ports}}
	v.Replace(kinds.ConfigMaps, 1, []resource.Object{leaving})
	v.Replace(kinds.Services, 1, []resource.Object{selecting, bare})
	on := shelf{}
	board := &Cache{Client: &client.Local{View: v, Set: set}, Store: on,
		Rules: rules.All(), Now: func() time.Time { return now }, kick: make(chan struct{}, 1)}
	gone, leave := context.WithCancel(t.Context())
	leave() // who asked first does not wait for the answer
	for _, ctx := range []context.Context{gone, t.Context()} {
		if err := board.Refresh(ctx, convergence.Gaps); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	if len(on) > 0 {
		t.Fatalf("%v is told too early", slices.Sorted(maps.Keys(on)))
	}
	now = now.Add(10 * time.Second)
	if err := board.Refresh(t.Context(), convergence.Gaps); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(on)); len(got) != 3 {
		t.Errorf("gaps of %v alone", got)
	}
}

// A warning is looked after as a change of what it is about: that may have a gap by nothing else.
func TestWarnedOf(t *testing.T) {
	set := kinds.NewSet()
	v := view.New(set)
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	meta := metav1.ObjectMeta{Namespace: "default", Name: "v", UID: "v", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
	volume := &corev1.PersistentVolume{ObjectMeta: meta, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased}}
	volume.Namespace, volume.Spec.PersistentVolumeReclaimPolicy = "", corev1.PersistentVolumeReclaimDelete
	v.Replace(kinds.PersistentVolumes, 1, []resource.Object{volume})
	on := shelf{}
	board := &Cache{Client: &client.Local{View: v, Set: set}, Store: on,
		Rules: rules.All(), Now: func() time.Time { return now }, kick: make(chan struct{}, 1)}
	refresh := func() int {
		if err := board.Refresh(t.Context(), convergence.Gaps); err != nil {
			t.Fatal(err)
		}
		return len(on)
	}
	if n := refresh(); n != 0 {
		t.Fatalf("%d gaps before the warning", n)
	}
	e := &corev1.Event{ObjectMeta: meta, Type: corev1.EventTypeWarning, Reason: "VolumeFailedDelete", Message: "in use",
		LastTimestamp:  metav1.NewTime(now),
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolume", Name: "v", UID: "v"}}
	v.Replace(kinds.Events, 2, []resource.Object{e})
	board.Take(client.Batch{Changes: []client.Change{{Kind: kinds.Events, New: e}}})
	if n := refresh(); n != 1 {
		t.Errorf("%d gaps after it", n)
	}
}

// A cron job that may not start its next job is looked at anew whenever it is due; what its last one waits for is as old as before.
func TestRipeByTheOldest(t *testing.T) {
	w := &converge.World{Now: time.Now()}
	young := converge.Health{Says: "did not start a job that was due", Since: w.Now}
	for _, tt := range []struct {
		name  string
		below []*converge.Step
		want  bool
	}{
		{"nothing below", nil, false},
		{"an old cause below", []*converge.Step{{Health: converge.Health{Since: w.Now.Add(-time.Hour)}}}, true},
		{"a cause that does not exist", []*converge.Step{{}}, false}, // of what does not exist nobody knows since when
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ripe(w, &converge.Step{Health: young, Below: tt.below}); got != tt.want {
				t.Errorf("above %+v it is ripe: %v", tt.below, got)
			}
		})
	}
}

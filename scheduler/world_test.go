package scheduler

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A world is a server on a store in memory with a scheduler.
type world struct {
	testing.TB
	*client.Local
	figures loop.Figures
}

// start runs a server; schedule starts the scheduler too.
func start(t testing.TB, schedule bool) *world {
	t.Helper()
	w := &world{TB: t, Local: testcluster.Start(t).Local}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	if schedule {
		w.schedule(t.Context())
	}
	return w
}

func (w *world) schedule(ctx context.Context) { w.scheduleBy(ctx, Config{}) }

func (w *world) scheduleBy(ctx context.Context, cfg Config) {
	events := client.NewRecorder(w.Local, "default-scheduler", nil)
	ctx, cancel := context.WithCancel(ctx)
	go events.Run(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = New(cfg).Run(ctx, loop.Env{Client: w.Local, Log: slog.Default(), Events: events, Figures: &w.figures})
	}()
	w.Cleanup(func() { cancel(); <-done })
}

func (w *world) kind(obj resource.Object) resource.Kind {
	for _, k := range kinds.All() {
		if k.Info().GVK.Kind == kindOf(k, obj) {
			return k
		}
	}
	w.Fatalf("no kind for %T", obj)
	return nil
}

func (w *world) create(obj resource.Object) resource.Object {
	w.Helper()
	out, err := w.Create(w.Context(), w.kind(obj), obj)
	if err != nil {
		w.Fatalf("create %s: %v", obj.GetName(), err)
	}
	return out
}

// patience bounds a test's wait for what must come.
const patience = 5 * time.Minute

// until waits for a pod to be as wanted.
func (w *world) until(name string, good func(p *corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	feed := w.Feed(kinds.Pods)
	for {
		b, err := feed.Next(ctx)
		p := resource.Get(w.Read(), kinds.Pods, "default", name)
		if p != nil && good(p) {
			return p
		}
		if err != nil {
			w.Fatalf("pod %s is not as wanted: %+v", name, p)
		}
		_ = b
	}
}

func bound(p *corev1.Pod) bool { return p.Spec.NodeName != "" }

func refused(p *corev1.Pod) bool {
	c := find(p, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

func kindOf(k resource.Kind, obj resource.Object) string {
	if x := k.New(k.Info().GVK); typeName(x) == typeName(obj) {
		return k.Info().GVK.Kind
	}
	return ""
}

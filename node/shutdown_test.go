package node

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// fakeLogind is a machine that says when it shuts down, and counts what holds it back.
type fakeLogind struct {
	mu      sync.Mutex
	held    int
	allowed time.Duration
	words   chan bool
	lost    bool // it can't be reached
}

func (f *fakeLogind) connect(context.Context) (logins, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost {
		return nil, errors.New("no such socket")
	}
	return f, nil
}

func (f *fakeLogind) Allow(_ context.Context, d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allowed = d
	return nil
}

type fakeLock func()

func (l fakeLock) Close() error { l(); return nil }

func (f *fakeLogind) count(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += n
	return f.held
}

func (f *fakeLogind) Hold(context.Context) (io.Closer, error) {
	f.count(1)
	return fakeLock(sync.OnceFunc(func() { f.count(-1) })), nil
}

func (f *fakeLogind) Next(ctx context.Context) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case down, ok := <-f.words:
		if !ok {
			return false, errors.New("the bus went away")
		}
		return down, nil
	}
}

func (f *fakeLogind) Close() {}

// shutting starts the rig's agent anew on a machine whose logind is f; the channel is the machine's power signals.
func (r *rig) shutting(f *fakeLogind, graces ...ShutdownGrace) chan<- os.Signal {
	r.stop()
	power := make(chan os.Signal)
	r.cfg.Shutdown, r.cfg.logins, r.cfg.power = graces, f.connect, power
	r.start()
	return power
}

func (r *rig) ready() corev1.NodeCondition {
	for _, c := range resource.Get(r.Read(), kinds.Nodes, "", "n").Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// Pods end group by group before the machine does; then nothing holds it back. New ones are refused until the shutdown is called off.
func TestShutdown(t *testing.T) {
	simulate(t, func(r *rig) {
		f := &fakeLogind{words: make(chan bool)}
		r.shutting(f, ShutdownGrace{0, 30 * time.Second}, ShutdownGrace{1000, 10 * time.Second})
		long := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(600)) }
		r.pod("web", long, "a")
		create(r, kinds.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
		r.pod("vital", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }, "b")
		r.reaches("web", corev1.PodRunning)
		r.reaches("vital", corev1.PodRunning)
		r.until("the machine is held back", func() bool { return f.count(0) == 1 && f.allowed == 40*time.Second })
		began := time.Now()
		r.rt.stop = func(ctx context.Context, id string) {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
		f.words <- true
		web := r.reaches("web", corev1.PodFailed)
		if r.get("vital").Status.Phase != corev1.PodRunning {
			t.Error("the critical pod did not wait for the other one")
		}
		if c := r.ready(); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "node is shutting down") {
			t.Errorf("%+v", c)
		}
		r.reaches("vital", corev1.PodFailed)
		r.until("nothing holds the machine back", func() bool { return f.count(0) == 0 })
		if took := time.Since(began); took > 15*time.Second || took < 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if web.Status.Reason != "Terminated" || web.Status.Message != shutdownText ||
			conditionOf(web, corev1.DisruptionTarget) != corev1.ConditionTrue {
			t.Errorf("%+v", web.Status)
		}
		r.pod("late", nil, "a")
		if p := r.reaches("late", corev1.PodFailed); p.Status.Reason != "NodeShutdown" {
			t.Errorf("%+v", p.Status)
		}
		f.words <- false
		r.until("it is held back anew", func() bool { return f.count(0) == 1 && r.ready().Status == corev1.ConditionTrue })
		r.pod("next", nil, "a")
		r.reaches("next", corev1.PodRunning)
		r.stop()
		if n := f.count(0); n != 0 {
			t.Errorf("an agent that ended holds the machine back %d times", n)
		}
	})
}

// Without logind a signal says that the machine shuts down. A pod that does not end has its grace, and no more.
func TestShutdownBySignal(t *testing.T) {
	simulate(t, func(r *rig) {
		power := r.shutting(&fakeLogind{lost: true}, ShutdownGrace{0, 20 * time.Second})
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		r.rt.stop = func(ctx context.Context, id string) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
		}
		began := time.Now()
		power <- unix.SIGPWR
		power <- unix.SIGPWR // it is taken when the first has been followed
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("it waited %v", took)
		}
	})
}

func TestShutdownGroups(t *testing.T) {
	pod := func(name string, priority int32) *corev1.Pod {
		p := testPod(corev1.RestartPolicyAlways, "", "a")
		p.Name, p.Spec.Priority = name, &priority
		return p
	}
	done := pod("done", 5)
	done.Status.Phase = corev1.PodSucceeded
	graces := []ShutdownGrace{{1000, 2}, {0, 1}, {2000000000, 3}}
	got := ""
	for _, g := range shutdownGroups(graces, []*corev1.Pod{pod("low", -10), pod("mid", 1000),
		pod("zero", 999), pod("top", 2000001000), done}) {
		got += ";"
		for _, p := range g.pods {
			got += " " + p.Name
		}
	}
	if want := "; low zero; mid; top"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

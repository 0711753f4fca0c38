package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// counted is a runtime that counts questions, and holds lists up.
type counted struct {
	*fakeRuntime
	mu                 sync.Mutex
	lists, all, states int           // of sandboxes; those without a filter; statuses
	stops              int           // of sandboxes
	slow               time.Duration // that a list takes
}

func (c *counted) ListPodSandbox(ctx context.Context, r *cri.ListPodSandboxRequest, o ...opt) (*cri.ListPodSandboxResponse, error) {
	c.mu.Lock()
	if c.lists++; r.Filter == nil {
		c.all++
	}
	slow := c.slow
	c.mu.Unlock()
	res, err := c.fakeRuntime.ListPodSandbox(ctx, r, o...)
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return res, err
}

func (c *counted) StopPodSandbox(ctx context.Context, r *cri.StopPodSandboxRequest, o ...opt) (*cri.StopPodSandboxResponse, error) {
	c.mu.Lock()
	c.stops++
	c.mu.Unlock()
	return c.fakeRuntime.StopPodSandbox(ctx, r, o...)
}

func (c *counted) PodSandboxStatus(ctx context.Context, r *cri.PodSandboxStatusRequest, o ...opt) (*cri.PodSandboxStatusResponse, error) {
	c.count()
	return c.fakeRuntime.PodSandboxStatus(ctx, r, o...)
}

func (c *counted) ContainerStatus(ctx context.Context, r *cri.ContainerStatusRequest, o ...opt) (*cri.ContainerStatusResponse, error) {
	c.count()
	return c.fakeRuntime.ContainerStatus(ctx, r, o...)
}

func (c *counted) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states++
}

func (c *counted) asked() (lists, all, states int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists, c.all, c.states
}

// TestCallsOfALife counts what a pod asks of the runtime from its creation to its end: each status once in each of its states.
func TestCallsOfALife(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		c := &counted{fakeRuntime: r.rt}
		r.cfg.Runtime.Containers = c
		r.start()
		r.rests(time.Minute)
		lists, all, states := c.asked()
		r.pod("a", nil, "c")
		r.reaches("a", corev1.PodRunning)
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "a", &metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("a") == nil })
		l, al, s := c.asked()
		t.Logf("%d lists, %d of all, %d statuses", l-lists, al-all, s-states)
		if l-lists-(al-all) > 14 {
			t.Errorf("the pod was looked for %d times, want at most 14", l-lists-(al-all))
		}
		if s-states > 6 {
			t.Errorf("%d statuses were asked for, want at most 6", s-states)
		}
		c.mu.Lock()
		if c.stops != 1 {
			t.Errorf("the sandbox was stopped %d times, and its network taken down as often", c.stops)
		}
		c.mu.Unlock()
		if n := len(r.agent.seen.pods); n != 0 {
			r.rests(time.Minute)
			if n = len(r.agent.seen.pods); n != 0 {
				t.Errorf("%d pods are remembered that are gone", n)
			}
		}
	})
}

// TestSharedLists has many ask at once: one asks for itself, and one for all others, after they asked.
func TestSharedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{fakeRuntime: newFakeRuntime(), slow: time.Second}
		m := newRuntimeCache(c)
		var wg sync.WaitGroup
		ask := func(ctx context.Context, name string, want int) {
			wg.Go(func() {
				l, err := m.list(ctx, podName{"d", name})
				if want < 0 && !errors.Is(err, context.Canceled) || want >= 0 && (err != nil || len(l.boxes) != want) {
					t.Errorf("%s: %d sandboxes, %v; want %d", name, len(l.boxes), err, want)
				}
			})
			synctest.Wait()
		}
		ask(t.Context(), "first", 0)
		c.boxes["x"] = &cri.PodSandbox{Id: "x", Metadata: &cri.PodSandboxMetadata{},
			Labels: map[string]string{labelNamespace: "d", labelPod: "p"}} // after the first list began
		leads, stop := context.WithCancel(t.Context())
		ask(leads, "leader", -1)
		for range 50 {
			ask(t.Context(), "p", 1)
		}
		time.Sleep(1500 * time.Millisecond)
		stop() // while it asks for all
		wg.Wait()
		if lists, all, _ := c.asked(); lists > 4 || all != 1 {
			t.Errorf("%d lists, %d of them of all; want the first, the one given up, and one or two for the rest", lists, all)
		}
	})
}

func TestSettled(t *testing.T) {
	at := noon
	ended := &cri.ContainerStatus{State: cri.ContainerState_CONTAINER_EXITED, FinishedAt: at.UnixNano()}
	if settled(ended, cri.ContainerState_CONTAINER_EXITED, at.Add(time.Second)) {
		t.Error("the reason of an end a second ago is taken as final")
	}
	if !settled(ended, cri.ContainerState_CONTAINER_EXITED, at.Add(time.Minute)) {
		t.Error("an end a minute ago is asked for again")
	}
	runs := &cri.ContainerStatus{State: cri.ContainerState_CONTAINER_RUNNING}
	if settled(runs, cri.ContainerState_CONTAINER_EXITED, at) || !settled(runs, cri.ContainerState_CONTAINER_RUNNING, at) ||
		settled(nil, cri.ContainerState_CONTAINER_RUNNING, at) {
		t.Error("a running container's status lasts as long as it runs")
	}
	if settled(&cri.ContainerStatus{State: cri.ContainerState_CONTAINER_UNKNOWN}, cri.ContainerState_CONTAINER_UNKNOWN, at) {
		t.Error("an unknown state is taken as final")
	}
}

package node

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
)

// gate is Policies that let nobody pass until it is opened.
type gate struct {
	mu       sync.Mutex
	open     bool
	asked    []netip.Addr
	released []types.UID
}

func (g *gate) Admit(_ context.Context, _ *corev1.Pod, addrs []netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = addrs
	if !g.open {
		return errors.New("not yet")
	}
	return nil
}

func (g *gate) Forget(_ context.Context, uid types.UID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.released = append(g.released, uid)
	return nil
}

// No container starts before the pod's network policies are in force, and its end is made known.
func TestPoliciesComeFirst(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		g := &gate{}
		r.cfg.Policies = g
		r.start()
		r.pod("p", nil, "a")
		r.until("the policies are asked", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.asked) > 0 })
		r.rests(time.Second)
		r.rt.mu.Lock()
		if n := len(r.rt.list); n != 0 {
			t.Errorf("%d containers were made before the policies were in force", n)
		}
		r.rt.mu.Unlock()
		g.mu.Lock()
		g.open = true
		g.mu.Unlock()
		r.reaches("p", corev1.PodRunning)
		uid := r.get("p").UID
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
		if len(g.released) == 0 || g.released[0] != uid {
			t.Errorf("the pod has gone, released are %v", g.released)
		}
	})
}

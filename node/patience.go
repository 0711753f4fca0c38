package node

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// A patience bounds what a pass waits for that may take as long as a pod likes: a hook, or a container that takes its grace to stop. It
// ends when the pod is to end, which a pass of its own then sees to, within another grace.
type patience struct {
	mu      sync.Mutex
	waiting map[types.UID]context.CancelFunc // by pod: one pass at a time
	ending  map[types.UID]bool               // pods that are to end
}

func newPatience() *patience {
	return &patience{waiting: map[types.UID]context.CancelFunc{}, ending: map[types.UID]bool{}}
}

// begin returns a context that ends with ctx, when the pod is to end, or with the returned function.
func (p *patience) begin(ctx context.Context, pod types.UID) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending[pod] {
		cancel()
		return ctx, cancel
	}
	p.waiting[pod] = cancel
	return ctx, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, pod)
	}
}

// ends says that the pod is to end.
func (p *patience) ends(pod types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending[pod] = true
	if cancel := p.waiting[pod]; cancel != nil {
		cancel()
	}
}

// over says whether the pod is to end.
func (p *patience) over(pod types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending[pod]
}

// keep forgets all pods but those.
func (p *patience) keep(used map[types.UID]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.ending, func(pod types.UID, _ bool) bool { return !used[pod] })
}

// ended has no pass wait for a pod of this node that was deleted. It wakes nothing: the change itself does.
func (a *Agent) ended(c client.Change, _ resource.Reader, _ func(ns, name string)) {
	p, ok := c.Object().(*corev1.Pod)
	if ok && p.Spec.NodeName == a.cfg.Name && (c.New == nil || p.DeletionTimestamp != nil) {
		a.patience.ends(p.UID)
	}
}

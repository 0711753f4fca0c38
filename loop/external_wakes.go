package loop

import "sync"

// ExternalWakes wake keys of a running loop from outside the cluster's state: a container ended, a timer of the
// machine's own, a probe answered. Safe for concurrent use; wakes before the loop runs are dropped, since a loop
// starts by looking at everything.
type ExternalWakes struct {
	mu sync.Mutex
	q  *queue
}

// NewExternalWakes returns one for the field of a Controller with that name.
func NewExternalWakes() *ExternalWakes { return &ExternalWakes{} }

// Wake marks a key due now; why becomes the cause on its record.
func (p *ExternalWakes) Wake(key Key, why string) {
	p.mu.Lock()
	q := p.q
	p.mu.Unlock()
	if q != nil {
		q.wake(key, Cause{Why: why})
	}
}

func (p *ExternalWakes) connect(q *queue) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.q = q
}

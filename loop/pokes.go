package loop

import "sync"

// Pokes wakes keys of a running loop from outside the cluster's state: a container ended, a timer of the
// machine's own, a probe answered. Safe for concurrent use; wakes before the loop runs are dropped, since a loop
// starts by looking at everything.
type Pokes struct {
	mu sync.Mutex
	q  *queue
}

// NewPokes returns a Pokes for the Pokes field of a Controller.
func NewPokes() *Pokes { return &Pokes{} }

// Wake marks a key due now; why becomes the cause on its record.
func (p *Pokes) Wake(key Key, why string) {
	p.mu.Lock()
	q := p.q
	p.mu.Unlock()
	if q != nil {
		q.wake(key, Cause{Why: why})
	}
}

func (p *Pokes) connect(q *queue) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.q = q
}

// Package metrics answers what nodes and pods use: the API metrics.k8s.io. It asks the nodes' agents when somebody
// asks it, goes on for as long as somebody does, and then forgets. Nothing runs in an idle cluster.
//
// An agent counts CPU time since a container's start; a use is the difference of two counts over the time between them.
// So whoever asks first waits a second.
package metrics

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	metricskinds "github.com/kloop-dev/kloop/kinds/metrics"
	"github.com/kloop-dev/kloop/metrics/usage"
	"github.com/kloop-dev/kloop/resource"
)

// Config holds what a Collector stands on.
type Config struct {
	Read func() resource.Reader
	// Ask reads one node's counts. It is called concurrently.
	Ask func(ctx context.Context, n *corev1.Node) (*usage.Summary, error)
	Log *slog.Logger
	Now func() time.Time // nil: time.Now
}

const (
	period    = 15 * time.Second // between two looks while somebody is interested
	interest  = 2 * time.Minute  // how long one question keeps the looks going
	perNode   = 10 * time.Second // how long an agent may take to answer
	atOnce    = 32               // agents that are asked at once
	forgotten = 3 * period       // a node that has been silent for so long has no use
)

// A Collector keeps what agents told. It is safe for concurrent use.
type Collector struct {
	cfg    Config
	wanted chan struct{} // somebody has asked
	turn   chan struct{} // held by the goroutine that asks the agents

	mu    sync.Mutex
	asked time.Time
	nodes map[string]*pair
	tries map[string]try // the last ones of nodes
}

// A try is one question to an agent.
type try struct {
	at     time.Time
	over   bool
	failed bool // this one, or while it is not over the one before
}

// A pair is the two newest counts of a node.
type pair struct{ before, last *usage.Summary }

// New returns a Collector that has asked nobody yet.
func New(cfg Config) *Collector {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Collector{cfg: cfg, wanted: make(chan struct{}, 1), turn: make(chan struct{}, 1), nodes: map[string]*pair{},
		tries: map[string]try{}}
}

// Kinds are those that Objects answers for.
func (c *Collector) Kinds() []resource.Kind { return metricskinds.All() }

// Run keeps the counts fresh while somebody is interested, until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-c.wanted:
			c.keepFresh(ctx)
		}
	}
}

func (c *Collector) keepFresh(ctx context.Context) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.mu.Lock()
		bored := c.cfg.Now().Sub(c.asked) > interest
		if bored {
			clear(c.nodes)
			clear(c.tries)
		}
		c.mu.Unlock()
		if bored {
			return
		}
		_ = c.look(ctx, period/2, period/2) // fails with ctx only
	}
}

// fresh makes sure that there are two counts of every node that answers, the newer one not older than a period or so.
func (c *Collector) fresh(ctx context.Context) error {
	c.mu.Lock()
	c.asked = c.cfg.Now()
	c.mu.Unlock()
	select {
	case c.wanted <- struct{}{}:
	default:
	}
	if err := c.look(ctx, period+perNode, 2*period); err != nil { // while Run goes on, only what it has not seen yet
		return err
	}
	if !c.halves() {
		return nil
	}
	wait := time.NewTimer(usage.Shortest)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
	}
	return c.look(ctx, usage.Shortest/2, 2*period)
}

// halves says whether a node has been counted only once.
func (c *Collector) halves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.nodes {
		if p.before == nil && p.last.Counts() {
			return true
		}
	}
	return false
}

// look asks all nodes whose newest count is older than the given age, and those that did not answer if that is as long ago as rest. Only
// one looks at a time.
func (c *Collector) look(ctx context.Context, age, rest time.Duration) error {
	if len(c.due(age, rest)) == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, n := range c.due(age, rest) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c.askNode(ctx, n)
		})
	}
	wg.Wait()
	c.drop(resource.List(c.cfg.Read(), core.Nodes, ""), c.cfg.Now())
	return ctx.Err()
}

// due are the nodes to ask. One that did not answer is not asked again before its time, nor waited for while it is: who asks for the others
// need not wait for it.
func (c *Collector) due(age, rest time.Duration) (list []*corev1.Node) {
	nodes, now := resource.List(c.cfg.Read(), core.Nodes, ""), c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		t := c.tries[n.Name]
		if !ready(n) || c.known(n.Name, now.Add(-age)) || t.failed && (!t.over || now.Sub(t.at) < rest) {
			continue
		}
		list = append(list, n)
	}
	return list
}

func (c *Collector) askNode(ctx context.Context, n *corev1.Node) {
	ctx, stop := context.WithTimeout(ctx, perNode)
	defer stop()
	c.mu.Lock()
	t := try{at: c.cfg.Now(), failed: c.tries[n.Name].failed}
	c.tries[n.Name] = t
	c.mu.Unlock()
	s, err := c.cfg.Ask(ctx, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	t.over, t.failed = true, err != nil && !errors.Is(context.Cause(ctx), context.Canceled) // who gave up says nothing of the agent
	c.tries[n.Name] = t
	if err != nil {
		c.cfg.Log.Debug("ask a node what its pods use", "node", n.Name, "err", err)
		return
	}
	p := c.nodes[n.Name]
	if p == nil {
		p = &pair{}
		c.nodes[n.Name] = p
	}
	if p.last != nil && s.Counts() && s.At.Sub(p.last.At) < usage.Shortest {
		return
	}
	p.before, p.last = p.last, s
}

// known says whether the node was counted after a time. One that does not count, but knows, is always asked: it is
// simulated, and the answer costs nothing. It needs mu.
func (c *Collector) known(node string, after time.Time) bool {
	p := c.nodes[node]
	return p != nil && p.last.Counts() && p.last.At.After(after)
}

// drop forgets nodes that are gone or have been silent for long.
func (c *Collector) drop(nodes []*corev1.Node, now time.Time) {
	here := map[string]bool{}
	for _, n := range nodes {
		here[n.Name] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.nodes {
		if !here[name] || now.Sub(p.last.At) > forgotten {
			delete(c.nodes, name)
		}
	}
	for name := range c.tries {
		if !here[name] {
			delete(c.tries, name)
		}
	}
}

// ready says whether it makes sense to ask the node.
func ready(n *corev1.Node) bool {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}

//go:build linux

package netpolicy

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Config says whose policies to enforce, and on which node.
type Config struct {
	Client client.Client // reads NetworkPolicies
	// Cluster returns a client that also reads Namespaces, Nodes and the pods of all nodes, once it is complete. It is asked for when there
	// is a policy: until then an agent elsewhere need not watch what runs on others. nil: Client reads it all.
	Cluster func(context.Context) (client.Client, error)
	Node    string
	Log     *slog.Logger
}

const (
	settle = 10 * time.Millisecond // changes that come this close together share a pass
	retry  = time.Second           // the pause after the kernel refused
	repair = time.Minute           // how often the kernel is read again, to mend what others changed
	taken  = time.Minute           // after the start, for pods that run to show their addresses
	share  = 10                    // a pass that took t is followed by a rest of share × t: policies never take the whole processor
)

// An Enforcer keeps the kernel's rules in step with the policies, and holds pods back until theirs are in force.
type Enforcer struct {
	cfg   Config
	asked chan request
	ended chan struct{} // closed when Run has ended

	repair, taken time.Duration
}

// New returns an enforcer; Run starts it.
func New(cfg Config) *Enforcer {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Enforcer{cfg: cfg, asked: make(chan request), ended: make(chan struct{}), repair: repair, taken: taken}
}

// A state lives between two passes. All of it can be read again from the cluster and the kernel.
type state struct {
	read     resource.Reader
	upcoming Upcoming
	waiting  []request
	have     [2]Observed        // IPv4, IPv6
	known    bool               // have is up to date
	seen     time.Time          // when it was read from the kernel
	began    time.Time          // when the first pass did
	former   [2]map[string]bool // addresses that were isolated then, of pods that are not known yet
	whole    bool               // read holds all that policies are judged by, not only whether there are any
	compiled Compiled           // policies of the last pass
}

// Run keeps the rules in step until ctx ends, and leaves them: what is isolated stays so while the process restarts. ready is called when
// the first rules are in place.
func (e *Enforcer) Run(ctx context.Context, ready func()) error {
	defer close(e.ended)
	if err := prepareKernel(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &state{upcoming: Upcoming{}}
	changes, err := e.watch(ctx, s)
	if err != nil {
		return err
	}
	rested, again := time.NewTimer(0), time.NewTimer(e.repair)
	<-rested.C
	in := changes
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-rested.C:
			in = changes
			continue
		case s.read = <-in:
		case r := <-e.asked: // a pod that starts does not wait for the rest
			if !s.take(r) {
				continue
			}
		case <-again.C:
			s.known = false
		}
		if !s.newest(changes) {
			continue
		}
		if !s.whole && anyPolicy(s.read) {
			if changes, err = e.watch(ctx, s); err != nil {
				return err
			}
			in = changes
			continue
		}
		began := time.Now()
		err := e.pass(s)
		s.answer(err)
		again.Reset(e.repair)
		switch {
		case err != nil && first:
			return err
		case err != nil:
			e.cfg.Log.Error("enforce network policies", "again", retry, "err", err)
			again.Reset(retry)
		case first:
			first = false
			ready()
		}
		in = nil
		rested.Reset(min(max(settle, share*time.Since(began)), time.Second))
	}
}

// newest takes a state that came meanwhile, and says whether there is any. A pass that is due anyway sees it, too: passes that come sooner
// than their rest ends, as they do after errors, would keep it off for ever.
func (s *state) newest(changes chan resource.Reader) bool {
	select {
	case s.read = <-changes:
	default:
	}
	return s.read != nil
}

// watch follows the policies, and once there are any, all that they are judged by.
func (e *Enforcer) watch(ctx context.Context, s *state) (chan resource.Reader, error) {
	c, what := e.cfg.Client, []resource.Kind{kinds.NetworkPolicies}
	if s.read != nil {
		var err error
		if c, err = e.cfg.Cluster(ctx); err != nil {
			return nil, err
		}
	}
	if s.read != nil || e.cfg.Cluster == nil {
		s.whole, s.read = true, nil
		what = append(what, kinds.Pods, kinds.Namespaces, kinds.Nodes)
	}
	changes := make(chan resource.Reader, 1)
	go follow(ctx, c.Feed(what...), changes)
	return changes, nil
}

// follow passes on the newest state whenever something changed.
func follow(ctx context.Context, feed client.Feed, to chan resource.Reader) {
	for {
		b, err := feed.Next(ctx)
		if err != nil {
			return
		}
		select {
		case <-to: // nobody took the last one, which is old now
		default:
		}
		to <- b.Read
	}
}

// pass is one turn of the loop: observe the kernel, plan, act on the difference.
func (e *Enforcer) pass(s *state) error {
	s.settled()
	if now := time.Now(); !s.known || now.Sub(s.seen) >= e.repair { // also while pods keep changing
		for i := range s.have {
			var err error
			s.have[i], err = observe(i == 1)
			switch {
			case err != nil && anyPolicy(s.read):
				return err
			case err != nil: // nothing to enforce: a machine without nftables can still be a node
				e.cfg.Log.Warn("network policies can't be enforced on this machine", "err", err)
			}
		}
		s.known, s.seen = true, now
	}
	m := &Model{}
	if anyPolicy(s.read) {
		m = NewModel(s.read, s.upcoming, s.compiled)
	}
	s.compiled = m.compiled
	for i := range s.have {
		want := NewPlan(m, e.cfg.Node, i == 1)
		if s.former[i] == nil {
			s.began, s.former[i] = time.Now(), s.have[i].isolated()
		}
		if time.Since(s.began) < e.taken && anyPolicy(s.read) {
			want.leave(s.former[i], s.have[i], m)
		}
		c := Difference(want, s.have[i])
		if c.Empty() || idle(want, s.have[i]) {
			continue
		}
		began := time.Now()
		s.known = false
		if err := program(want, c); err != nil {
			return err
		}
		s.have[i], s.known = want.observed(s.have[i]), true
		e.cfg.Log.Debug("network policies programmed", "family", i, "chains", len(want.Chains), "took", time.Since(began))
	}
	return nil
}

// anyPolicy says whether there is a policy at all: a cluster without one pays nothing for its pods.
func anyPolicy(read resource.Reader) bool {
	for range read.Each(kinds.NetworkPolicies, "") {
		return true
	}
	return false
}

// idle says whether there is nothing to enforce and nothing of ours in the kernel: then no table is made.
func idle(want *Plan, have Observed) bool { return len(want.Chains) == 0 && !have.Hooked }

// observed is the state of the kernel once the plan is programmed, where it was another before.
func (p *Plan) observed(before Observed) Observed {
	o := Observed{Hooked: true, Sets: p.Sets, Chains: map[string]int{}}
	if p.left { // nothing was taken away
		o.Sets, o.Chains = maps.Clone(before.Sets), maps.Clone(before.Chains)
		maps.Copy(o.Sets, p.Sets)
	}
	for name, list := range p.Chains {
		o.Chains[name] = len(list) + 1
	}
	return o
}

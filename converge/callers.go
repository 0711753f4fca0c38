package converge

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

// Callers records what the front door saw of callers over the wire: who watches what, and whose writes are refused.
// It is bounded, and safe for concurrent use; a nil *Callers knows of nobody.
type Callers struct {
	Now    func() time.Time // nil: time.Now
	Others *Processes       // what other servers saw; nil: there are none

	// Ours tells kinds that others define and loops of this cluster act on; nil: there are none.
	Ours func(schema.GroupResource) bool

	mu      sync.Mutex
	watches map[schema.GroupResource]map[string]int // by user: how many watches are open
	refused map[refusalKey]*Refusal
}

// Blocked notes an eviction that a disruption budget did not allow; why is the budget's word.
func (c *Callers) Blocked(ns, pod, agent, why string) {
	c.refuse(Refusal{Agent: agent, Verb: evict, Message: why}, schema.GroupResource{Resource: "pods"}, ns, pod)
}

// evict is the verb of a Refusal that is of an eviction.
const evict = "evict"

// Evicting is an eviction of the pod that is refused again and again.
func (c *Callers) Evicting(ns, pod string) (Refusal, bool) {
	if c == nil {
		return Refusal{}, false
	}
	var found *Refusal
	c.refusals(func(key refusalKey, r *Refusal) {
		if r.Verb == evict && key.ns == ns && key.name == pod {
			kept := *r
			found = &kept
		}
	})
	if found == nil {
		return Refusal{}, false
	}
	return *found, true
}

// maxRefusals bounds how many refusals are remembered; the oldest goes first.
const maxRefusals = 256

type refusalKey struct {
	gr       schema.GroupResource
	ns, name string
	user     string
}

// A Refusal is a write that the server did not take.
type Refusal struct {
	User, Agent, Verb, Resource string
	Message                     string
	Forbidden                   bool // by an authorizer: the user lacks a right
	Count                       int64
	First, Last                 time.Time
}

// Failure is the refusal as an error of a gap.
func (r *Refusal) Failure() *convergence.Failure {
	return &convergence.Failure{Message: r.Message, Count: r.Count, First: Stamp(r.First), Last: Stamp(r.Last)}
}

func (c *Callers) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// Watching notes a watch; the returned function ends it.
func (c *Callers) Watching(gr schema.GroupResource, agent string) (ended func()) {
	if ByHand(agent) || ours(agent) {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches == nil {
		c.watches = map[schema.GroupResource]map[string]int{}
	}
	if c.watches[gr] == nil {
		c.watches[gr] = map[string]int{}
	}
	c.watches[gr][agent]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.watches[gr][agent]--; c.watches[gr][agent] <= 0 {
			delete(c.watches[gr], agent)
		}
	})
}

// ours tells user agents of what every cluster has: upstream's loops and agents look at all kinds, and do not mean those
// that others define.
func ours(agent string) bool {
	name, _, _ := strings.Cut(agent, "/")
	return strings.HasPrefix(name, "kloop") || slices.Contains([]string{"kube-controller-manager", "kube-scheduler", "kube-apiserver",
		"kubelet", "kube-proxy"}, name)
}

// watchers counts the controllers outside that watch a resource.
func (c *Callers) watchers(gr schema.GroupResource) int {
	return len(c.agents(gr))
}

// agents are the controllers outside that watch a resource, through this server or another one.
func (c *Callers) agents(gr schema.GroupResource) map[string]bool {
	if c == nil {
		return nil
	}
	list := map[string]bool{}
	for _, r := range c.Others.told() {
		for _, w := range r.Watches {
			if w.Resource == gr.String() {
				list[w.Agent] = true
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for agent := range c.watches[gr] {
		list[agent] = true
	}
	return list
}

// Refused notes a write, or a read of a controller's, that was refused. ns and name are those of the object.
func (c *Callers) Refused(r Refusal, gr schema.GroupResource, ns, name string) {
	if ByHand(r.Agent) {
		return
	}
	c.refuse(r, gr, ns, name)
}

func (c *Callers) refuse(r Refusal, gr schema.GroupResource, ns, name string) {
	r.Agent, _, _ = strings.Cut(r.Agent, "/")
	r.Resource = gr.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.refused == nil {
		c.refused = map[refusalKey]*Refusal{}
	}
	key := refusalKey{gr, ns, name, r.User}
	if old := c.refused[key]; old != nil {
		old.Count, old.Last, old.Message = old.Count+1, now, r.Message
		return
	}
	if len(c.refused) >= maxRefusals {
		c.dropOldest()
	}
	r.Count, r.First, r.Last = 1, now, now
	c.refused[key] = &r
}

func (c *Callers) dropOldest() {
	var oldest refusalKey
	var at time.Time
	for key, r := range c.refused {
		if at.IsZero() || r.Last.Before(at) {
			oldest, at = key, r.Last
		}
	}
	delete(c.refused, oldest)
}

// Took notes that a write of a user's went well: what was refused before is over.
func (c *Callers) Took(user string, gr schema.GroupResource, ns, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) > 0 {
		delete(c.refused, refusalKey{gr, ns, name, user})
	}
}

// refusalFor returns a refusal that keeps the controller of an object from its work: of a write of the object, or of
// anything else in its namespace by the same user.
func (c *Callers) refusalFor(gr schema.GroupResource, ns, name string) (Refusal, bool) {
	if c == nil {
		return Refusal{}, false
	}
	var best *Refusal
	agents := c.agents(gr)
	c.refusals(func(key refusalKey, r *Refusal) {
		if r.Verb == evict {
			return
		}
		own := key.gr == gr && key.ns == ns && (key.name == name || key.name == "")
		near := false
		for agent := range agents {
			if a, _, _ := strings.Cut(agent, "/"); a == r.Agent && (key.ns == ns || key.ns == "") {
				near = true
			}
		}
		if (own || near) && (best == nil || r.Last.After(best.Last)) {
			kept := *r
			best = &kept
		}
	})
	if best == nil {
		return Refusal{}, false
	}
	return *best, true
}

// refusals calls f for all that are known, of this server and others.
func (c *Callers) refusals(f func(key refusalKey, r *Refusal)) {
	for _, p := range c.Others.told() {
		for i := range p.Refused {
			d := &p.Refused[i]
			r := &Refusal{User: d.User, Agent: d.Agent, Verb: d.Verb, Resource: d.Resource, Message: d.Error.Message,
				Forbidden: d.Forbidden,
				Count:     d.Error.Count}
			if d.Error.First != nil && d.Error.Last != nil {
				r.First, r.Last = d.Error.First.Time, d.Error.Last.Time
			}
			f(refusalKey{schema.ParseGroupResource(d.Resource), d.Namespace, d.Name, d.User}, r)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.refused {
		f(key, r)
	}
}

// Report adds what this server saw to what it tells other servers.
func (c *Callers) Report(to *convergence.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for gr, agents := range c.watches {
		for agent := range agents {
			if len(to.Watches) < maxReported {
				to.Watches = append(to.Watches, convergence.Watch{Resource: gr.String(), Agent: agent})
			}
		}
	}
	for key, r := range c.refused {
		d := convergence.Denial{User: r.User, Agent: r.Agent, Verb: r.Verb, Resource: r.Resource, Namespace: key.ns, Name: key.name,
			Forbidden: r.Forbidden, Error: *r.Failure()}
		d.Error.Message = cut(d.Error.Message)
		to.Refused = append(to.Refused, d)
	}
}

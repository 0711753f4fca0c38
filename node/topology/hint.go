package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Hint is a set of NUMA nodes on which a request can be met. One that is preferred needs no more nodes than the request must.
type Hint struct {
	On        Mask // 0: anywhere
	Preferred bool
}

// Hints are the places where one request can be met. nil: it does not matter where; empty: nowhere.
type Hints []Hint

// A Policy says how strictly what a container gets must lie together.
type Policy string

// The policies, by the kubelet's names.
const (
	None       Policy = "none"             // nothing is asked
	BestEffort Policy = "best-effort"      // as near as can be
	Restricted Policy = "restricted"       // on as few nodes as the requests must
	SingleNUMA Policy = "single-numa-node" // on one node
)

// ErrAffinity is why a pod is refused whose requests can't be met near enough to each other.
//
//lint:ignore ST1005 the words are the kubelet's, and people search for them
var ErrAffinity = errors.New("Resources cannot be allocated with Topology locality")

// Check refuses a policy that there is not.
func (p Policy) Check() error {
	if slices.Contains([]Policy{"", None, BestEffort, Restricted, SingleNUMA}, p) {
		return nil
	}
	return fmt.Errorf("topologyManagerPolicy %q: want %s, %s, %s or %s", p, None, BestEffort, Restricted, SingleNUMA)
}

// Merge finds the best place for requests that are to be met together, on a machine of the nodes all. It is pure, and takes time in the
// number of requests and of sets of nodes, not of their combinations.
func (p Policy) Merge(all Mask, requests []Hints) (Mask, error) { return p.merge(all, requests, nil) }

// Merge is that of the policy, with its options.
func (s Settings) Merge(m Machine, requests []Hints) (Mask, error) {
	if s.PreferClosest {
		return s.Policy.merge(m.Nodes(), requests, m.apart)
	}
	return s.Policy.merge(m.Nodes(), requests, nil)
}

// merge prefers, of sets of equally many nodes, those that are less apart; nil: those of lower numbers.
func (p Policy) merge(all Mask, requests []Hints, apart func(Mask) float64) (Mask, error) {
	if p == None || p == "" {
		return 0, nil
	}
	best := p.best(all, requests, apart)
	if p != BestEffort && !best.Preferred {
		return 0, ErrAffinity
	}
	if best.On == all {
		return 0, nil
	}
	return best.On, nil
}

// best is the best of all ways to choose one hint of each request.
func (p Policy) best(all Mask, requests []Hints, apart func(Mask) float64) Hint {
	joint := map[Hint]bool{{On: all, Preferred: true}: true}
	fewest := 0 // nodes that the request that needs the most of them needs
	for _, list := range requests {
		list = p.usable(all, list)
		next, least := map[Hint]bool{}, all.Count()
		for have := range joint {
			for _, h := range list {
				least = min(least, h.On.Count())
				if on := have.On & h.On; on != 0 {
					next[Hint{on, have.Preferred && h.Preferred}] = true
				}
			}
		}
		joint, fewest = next, max(fewest, least)
	}
	best := Hint{On: all}
	found := false
	for h := range joint {
		if !found || better(h, best, fewest, apart) {
			best, found = h, true
		}
	}
	return best
}

// usable turns a request's hints into sets of nodes, and leaves out those that the policy does not want.
func (p Policy) usable(all Mask, list Hints) (out Hints) {
	if list == nil {
		return Hints{{On: all, Preferred: true}}
	}
	for _, h := range list {
		if h.On == 0 {
			h.On = all
		} else if p == SingleNUMA && h.On.Count() > 1 {
			continue
		}
		if h.On &= all; h.On != 0 {
			out = append(out, h)
		}
	}
	if len(out) == 0 { // it can't be met: best effort goes on with the others
		return Hints{{On: all}}
	}
	return out
}

// better orders places. Of those that need not be preferred the one of as many nodes as the largest request needs is best: on fewer of
// them it would not fit.
func better(a, b Hint, fewest int, apart func(Mask) float64) bool {
	if a.Preferred != b.Preferred {
		return a.Preferred
	}
	if !a.Preferred {
		off := func(h Hint) int {
			if n := h.On.Count() - fewest; n >= 0 {
				return n
			}
			return 64 + fewest - h.On.Count()
		}
		if c := cmp.Compare(off(a), off(b)); c != 0 {
			return c < 0
		}
	}
	if apart != nil && a.On.Count() == b.On.Count() {
		if c := cmp.Compare(apart(a.On), apart(b.On)); c != 0 {
			return c < 0
		}
	}
	return a.On.narrower(b.On)
}

// Fits makes the hints of a request: has says whether the nodes can ever hold it, can whether they can now.
func Fits(all Mask, has, can func(Mask) bool) Hints {
	list, fewest := Hints{}, 0
	for _, m := range masks(all) {
		if !has(m) {
			continue
		}
		if fewest == 0 {
			fewest = m.Count() // sets of fewer nodes come first
		}
		if can(m) {
			list = append(list, Hint{m, m.Count() == fewest})
		}
	}
	return list
}

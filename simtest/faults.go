package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	Refused     Kind = "refused"          // a request fails and nothing was done
	Unanswered  Kind = "answer lost"      // a write is done, and its answer lost
	Conflict    Kind = "conflict"         // a write is refused as if another had been faster
	Slow        Kind = "slow"             // a request takes some seconds until it is done
	LateAnswer  Kind = "late answer"      // a request is done, and answered some seconds later: caches may show what it did before that
	CrashBefore Kind = "crash before"     // the operator dies as it asks for a write
	CrashAfter  Kind = "crash after"      // the operator dies, and what it asked for is done
	Stale       Kind = "stale after"      // as CrashAfter; the next life's caches start from an older state, and stay there for a while
	Late        Kind = "late event"       // an event of a watch, and those after it, come later
	Twice       Kind = "doubled event"    // an event of a watch comes twice
	Missed      Kind = "missed events"    // a watch loses its place for a while: what comes is only seen by listing again (410)
	Partition   Kind = "partition"        // the operator reaches nobody for a while; its watches end
	ClockStep   Kind = "clock step"       // the server's clock jumps
	NodeLoss    Kind = "node lost"        // a simulated node falls silent for a while
	Restart     Kind = "restart"          // the operator dies between two of the user's steps
	StaleStart  Kind = "stale restart of" // as Restart, with caches that start from an older state
)

// All is every kind of fault.
var All = []Kind{Refused, Unanswered, Conflict, Slow, LateAnswer, CrashBefore, CrashAfter, Stale, Late, Twice, Missed, Partition, ClockStep,
	NodeLoss, Restart, StaleStart}

// A Fault hits the Nth request or event of a site, which is a verb and a resource, such as "create pods".
// Those that come with a user's step have the site "step".
type Fault struct {
	Kind Kind
	Site string
	N    int           // from 1
	For  time.Duration // how long it lasts, of those that last
	Back int           // how many changes the caches are behind
	Jump time.Duration // by how much the clock steps
}

// String implements fmt.Stringer.
func (f Fault) String() string {
	s := fmt.Sprintf("%s %s #%d", f.Kind, f.Site, f.N)
	if f.Back > 0 {
		s += fmt.Sprintf(", %d changes behind", f.Back)
	}
	if f.Jump != 0 {
		s += fmt.Sprintf(", by %s", f.Jump)
	}
	if f.For > 0 {
		s += fmt.Sprintf(", for %s", f.For)
	}
	return s
}

// fits says whether a kind of fault can happen at a site.
func (k Kind) fits(site string) bool {
	verb, _, _ := strings.Cut(site, " ")
	switch k {
	case Refused, Slow, LateAnswer:
		return verb != "step" && verb != "event"
	case Conflict:
		return verb == "update" || verb == "patch"
	case Unanswered, CrashBefore, CrashAfter, Stale:
		return writes(verb)
	case Late, Twice, Missed:
		return verb == "event"
	}
	return verb == "step"
}

func writes(verb string) bool {
	return verb == "create" || verb == "update" || verb == "patch" || verb == "delete"
}

// A place can have a fault: the nth of a site.
type place struct {
	site string
	n    int
}

// farBack bounds how many changes old a cache may be.
const farBack = 15

// roll chooses a seed's faults among the places of the calm run. It is a pure function.
func roll(seed uint64, kinds []Kind, most int, places []place, changes int) (list []Fault) {
	dice := rand.New(rand.NewPCG(seed, 16))
	for range 1 + dice.IntN(most) {
		k := kinds[dice.IntN(len(kinds))]
		if old := []Kind{Stale, StaleStart}[dice.IntN(2)]; dice.IntN(3) == 0 && slices.Contains(kinds, old) {
			k = old // it has more to choose than the others: when, and how old
		}
		can := slices.DeleteFunc(slices.Clone(places), func(p place) bool { return !k.fits(p.site) })
		if len(can) == 0 {
			continue
		}
		p := can[dice.IntN(len(can))]
		f := Fault{Kind: k, Site: p.site, N: p.n}
		switch k {
		case Conflict, Refused, Unanswered, Twice:
		case ClockStep:
			f.Jump = time.Duration(dice.Int64N(int64(4*time.Minute))) - 2*time.Minute
		default:
			f.For = time.Duration(1+dice.IntN(40)) * time.Second
		}
		if k == Late || k == Missed {
			f.For /= 4
		}
		if k == Stale || k == StaleStart {
			f.Back = 1 + dice.IntN(max(1, min(changes, farBack)))
		}
		if !slices.ContainsFunc(list, func(o Fault) bool { return o.Site == f.Site && o.N == f.N }) {
			list = append(list, f)
		}
	}
	return list
}

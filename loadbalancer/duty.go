package loadbalancer

import (
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// The times by which nodes agree on who answers. A holder that was frozen longer than frozen does not answer; nobody takes its place
// before silence, which is longer.
const (
	beatEvery  = 200 * time.Millisecond // between two heartbeats of a holder
	frozen     = 600 * time.Millisecond // without a beat of its own a holder does not answer
	silence    = time.Second            // without a heartbeat of the holder others may take over
	turn       = 150 * time.Millisecond // by which each candidate waits longer than the one before it
	patience   = 5 * time.Second        // for a holder that may no longer answer to let go
	probeEvery = 50 * time.Millisecond  // between two questions whether somebody else answers
	probes     = 3                      // of them
	conflicted = time.Second            // pause after somebody else did
	tellAgain  = 1100 * time.Millisecond
	tellTimes  = 5 // unsolicited announcements: old kernels ignore what comes within a second of another
)

// A phase says what a node does about an address.
type phase int

const (
	quiet     phase = iota // does not answer
	probing                // asks whether somebody else answers
	answering              // answers
)

// A duty is an address for which this node may have to answer.
type duty struct {
	lease      *coordinationv1.Lease
	addr       netip.Addr
	holder     string
	rev        int64
	candidates []wellknown.Candidate
	seen       time.Time // when this holder was first seen
	outside    time.Time // when the holder was first seen not to be a candidate; zero: it is one
	heard      time.Time // the holder's last heartbeat since then; zero: none
	previous   string    // address of the holder before us, which is to yield

	phase   phase
	asked   int       // probes sent
	next    time.Time // next probe, or announcement
	told    int       // announcements made
	yielded int64     // revision of the Lease below which ours does not count: another node has taken over
	doubt   bool      // we stood still: our Lease counts when the API confirms it
	busy    bool      // a write, or a read of the API, is under way
	retry   time.Time // not before is there another one
	rival   string    // hardware address of somebody else who answers; "": nobody known
	trouble string    // what keeps us from answering
	foreign string    // our networks, of which none holds the address; "": one does
}

// learn takes in the Lease as it is now. An older state than the known one says nothing.
func (d *duty) learn(l *coordinationv1.Lease, now time.Time) {
	rev := resource.Revision(l)
	if d.lease != nil && rev <= d.rev {
		return
	}
	var candidates []wellknown.Candidate
	if err := json.Unmarshal([]byte(l.Annotations[wellknown.AnnouncedCandidates]), &candidates); err != nil {
		candidates = nil // nobody may answer
	}
	holder := ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if d.lease == nil || holder != d.holder {
		d.previous = addressOf(d.candidates, d.holder)
		d.seen, d.heard, d.outside = now, time.Time{}, time.Time{}
	}
	d.lease, d.rev, d.holder, d.candidates = l, rev, holder, candidates
	if out := addressOf(candidates, holder) == ""; !out {
		d.outside = time.Time{}
	} else if d.outside.IsZero() {
		d.outside = now
	}
}

func addressOf(list []wellknown.Candidate, node string) string {
	if i := index(list, node); i >= 0 {
		return list[i].Address
	}
	return ""
}

func index(list []wellknown.Candidate, node string) int {
	return slices.IndexFunc(list, func(c wellknown.Candidate) bool { return c.Node == node })
}

// interfaces are those on which a node may answer; none: all.
func (d *duty) interfaces(node string) []string {
	if i := index(d.candidates, node); i >= 0 {
		return d.candidates[i].Interfaces
	}
	return nil
}

// A move says what a node does next about an address.
type move int

const (
	nothing  move = iota
	hush          // stop answering
	take          // write ourselves into the Lease
	letGo         // stop answering, then take ourselves out of it
	confirm       // read the Lease from the API
	ask           // send a probe
	answer        // begin to answer
	announce      // tell the network again that we do
)

// decide is pure: what to do now, and when to look again; the zero time: when something changes.
func (d *duty) decide(me string, now time.Time) (move, time.Time) {
	if d.holder == me {
		return d.hold(me, now)
	}
	if d.phase != quiet {
		return hush, now
	}
	at := d.turn(me)
	switch {
	case at.IsZero() || d.busy:
		return nothing, time.Time{}
	case now.Before(at):
		return nothing, at
	case now.Before(d.retry):
		return nothing, d.retry
	}
	return take, now
}

// turn returns the time from which this node may take the Lease; zero: not as things are.
func (d *duty) turn(me string) time.Time {
	others := slices.DeleteFunc(slices.Clone(d.candidates), func(c wellknown.Candidate) bool { return c.Node == d.holder })
	rank := index(others, me)
	wait := time.Duration(rank) * turn
	switch {
	case rank < 0:
		return time.Time{}
	case d.holder == "":
		return d.seen.Add(wait)
	case !d.outside.IsZero():
		return d.outside.Add(patience + wait)
	case d.heard.IsZero(): // perhaps heartbeats don't get through: the controller takes nodes that are not ready off the list
		return time.Time{}
	}
	return d.heard.Add(silence + wait)
}

// hold is decide for a Lease that is ours.
func (d *duty) hold(me string, now time.Time) (move, time.Time) {
	counts := d.rev >= d.yielded && !d.doubt && index(d.candidates, me) >= 0
	switch {
	case !counts && d.phase != quiet:
		return hush, now
	case d.busy:
		return nothing, time.Time{}
	case now.Before(d.retry):
		return nothing, d.retry
	case index(d.candidates, me) < 0:
		return letGo, now
	case d.doubt || d.rev < d.yielded:
		return confirm, now
	case d.phase == quiet:
		return ask, now
	case now.Before(d.next):
		return nothing, d.next
	case d.phase == probing && d.asked < probes:
		return ask, now
	case d.phase == probing:
		return answer, now
	case d.told < tellTimes:
		return announce, now
	}
	return nothing, time.Time{}
}

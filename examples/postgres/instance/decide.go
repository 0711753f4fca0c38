package instance

import (
	"fmt"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// Local describes an instance's own PostgreSQL, as it was just seen.
type Local struct {
	Data      bool     // there is complete data
	Broken    bool     // a rewind did not end: the data can't be used
	SystemID  string   // of the data
	Running   bool     // it answers
	InRecover bool     // Running as standby
	Signal    bool     // the data is set up to start as standby
	Clean     bool     // it was primary and was stopped cleanly: LSN is the end
	AtEnd     bool     // a standby has replayed all it has: LSN is the end
	Timeline  int64    // of the last WAL
	LSN       uint64   // end of WAL: received by a standby, written by a primary, of the last checkpoint if stopped
	Upstream  string   // address that a standby receives from
	Receiving bool     // it does
	Streaming []string // standbys of a primary that have caught up, sorted
	Restart   bool     // settings wait for a restart
	Lowered   bool     // a primary's do, and only such that standbys may not have lower than it
	Paused    bool     // a standby replays nothing: its primary has more connections than it
	Archive   string   // WAL that could not be archived
}

// Situation is all that a decision rests on.
type Situation struct {
	Me     string
	Status v1alpha1.PostgresClusterStatus
	Local  Local

	Held     bool   // the Lease is ours, and will be for a while
	Free     bool   // nobody holds the Lease
	Last     grant  // what the Lease says of its last holder
	Upstream string // address of the target primary, if it is primary; empty: there is none yet
	Stuck    bool   // a standby has received nothing for long although there is a primary
	Rewound  bool   // a rewind has not helped against that
	Version  string // why this version of PostgreSQL will not do; empty: it will
}

// Act names the next thing to do.
type Act string

// The acts. Each may be repeated, and each may be cut short by a crash.
const (
	Wait    Act = "wait"
	Acquire Act = "acquire the lease"
	Release Act = "release the lease"
	Init    Act = "make data"      // initdb, or a restore from the archive
	Start   Act = "start"          // as what the data is set up for
	Promote Act = "promote"        // a standby becomes primary
	Stop    Act = "stop"           // cleanly: what was committed reaches the standbys
	Pause   Act = "stop receiving" // a standby receives from nobody
	Follow  Act = "follow"         // a standby receives from Upstream
	Rewind  Act = "rewind"         // take back what the primary does not have, and become its standby
	Clone   Act = "clone"          // copy the primary's data
	Tend    Act = "tend"           // slots, roles and settings of a primary
)

// decide is the whole of an instance's behaviour. The reason is for people.
func decide(s Situation) (act Act, reason string) {
	primary := s.Local.Running && !s.Local.InRecover
	switch {
	case s.Version != "":
		return Wait, s.Version
	case primary && !s.Held:
		return Stop, "the lease is not held"
	case s.Status.Election != nil:
		return yield(s, primary, "an election is open")
	case s.Status.TargetPrimary == s.Me:
		return lead(s, primary)
	case primary || s.Held:
		return yield(s, primary, s.Status.TargetPrimary+" is to be primary")
	case s.Status.TargetPrimary == "":
		return Wait, "nobody is to be primary yet"
	}
	return follow(s)
}

// yield gives up whatever the instance holds, and finds out where its WAL ends.
func yield(s Situation, primary bool, reason string) (Act, string) {
	switch {
	case primary:
		return Stop, reason
	case s.Held:
		return Release, reason
	case s.Local.Running && (s.Local.Upstream != "" || s.Local.Receiving):
		return Pause, reason
	case s.Status.Election != nil && !s.Local.Running && s.Local.Data && !s.Local.Broken && !s.Local.Clean:
		return Start, "as a standby of nobody: only replay finds the end of its WAL"
	}
	return Wait, reason
}

// lead brings the instance to be primary. Nothing of it is done without the Lease.
func lead(s Situation, primary bool) (Act, string) {
	l := s.Local
	switch {
	case l.Broken || !l.Data && s.Status.SystemID != "":
		return Wait, "it is to be primary and has no usable data"
	case l.Data && s.Status.SystemID != "" && l.SystemID != s.Status.SystemID:
		return Wait, fmt.Sprintf("its data is of system %s, the cluster's of %s", l.SystemID, s.Status.SystemID)
	case l.Data && l.Signal && !l.Running:
		return Start, "as a standby of nobody, to be promoted"
	case !s.Held && !s.entitled():
		return Wait, fmt.Sprintf("it may lack WAL: it has %X, the last primary ended at %X", l.LSN, s.Last.released)
	case !s.Held && s.Free:
		return Acquire, "it is to be primary"
	case !s.Held:
		return Wait, "another holds the lease"
	case !l.Data:
		return Init, "the cluster is new"
	case !l.Running:
		return Start, "it is to be primary"
	case !primary:
		return Promote, "it holds the lease"
	case l.Lowered:
		return Stop, "to start with lower settings, which standbys may have only after it"
	}
	return Tend, ""
}

// entitled says whether nobody can have committed what this instance lacks: the last holder is itself, or gave the Lease up at an
// end of WAL that is here, or an election was held since.
func (s Situation) entitled() bool {
	switch last := s.Last; {
	case !last.there, s.Status.Epoch > last.epoch, v1alpha1.HolderName(last.holder) == s.Me:
		return true
	default:
		return last.holder == "" && last.released > 0 && last.released <= s.Local.LSN
	}
}

// follow brings the instance to be a standby of the primary.
func follow(s Situation) (Act, string) {
	l := s.Local
	switch {
	case s.Upstream == "":
		return Wait, s.Status.TargetPrimary + " is not primary yet"
	case s.Status.SystemID == "":
		return Wait, "the cluster's data is not known yet"
	case !l.Data || l.Broken || l.SystemID != s.Status.SystemID:
		return Clone, "it has no data of this cluster"
	case s.Stuck && s.Rewound:
		return Clone, "a rewind did not help"
	case s.Stuck:
		return Rewind, "it has received nothing for long"
	case !l.Running && !l.Signal:
		return Rewind, "it was primary"
	case !l.Running:
		return Start, "as a standby"
	case l.Upstream != s.Upstream:
		return Follow, s.Upstream
	}
	return Wait, ""
}

// Package member says what a member of etcd in this process offers and needs, without etcd: package store/etcd implements it, and a
// program that keeps all in memory links none of it.
package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/kloop-dev/kloop/store"
)

// An Opener opens stores that outlive the process.
type Opener interface {
	// Open starts a member in this process, and returns when it takes writes. The context bounds the start only. A directory that can't
	// be trusted is refused with a *CorruptError.
	Open(ctx context.Context, c Config) (Member, error)
	// Dial connects to an etcd cluster, and returns when it answers.
	Dial(ctx context.Context, r Remote) (store.Store, error)
}

// A Member is a store of which this process holds a part. Its methods may be called from any goroutine.
type Member interface {
	store.Store
	// Sole says that no other process writes to the store.
	Sole() bool
	// Revision is that of the newest write acknowledged before the call.
	Revision(ctx context.Context) (int64, error)
	// Snapshot writes the whole store as it is now.
	Snapshot(ctx context.Context, w io.Writer) error
	// Members lists who keeps the store, as of a moment after the call began.
	Members(ctx context.Context) ([]Peer, error)
	// Admit makes a new member known, and returns all there are then. It fails with ErrAlone or ErrTaken.
	Admit(ctx context.Context, name, url string) ([]Peer, error)
	// Remove takes a member out of the cluster, by name or ID in hexadecimal. It fails with ErrNoMember if there is none.
	Remove(ctx context.Context, who string) (Peer, error)
	// Refuses says why writes are not taken for want of space, and since when this is known; "": they are taken. It looks anew.
	Refuses() (why string, since time.Time)
	// Pace says how many writes were answered since the start, and how long all of them together took.
	Pace() (writes int64, took time.Duration)
	// Silent lists the other members that do not answer. It takes as long as the slowest of them, five seconds at most.
	Silent(ctx context.Context) []Peer
	// HandOver has another member lead, if this one does and there is another: within a second or so, or it says why not.
	HandOver() error
	// Gone is closed when the member stopped on its own.
	Gone() <-chan struct{}
}

// Config says where a member keeps its data, and how others reach it.
type Config struct {
	Dir   string       // data directory, in etcd's own layout; made when missing
	Peers *Peers       // how other members reach this one; nil: they don't, it is the only member
	Log   *slog.Logger // nil: the default logger
}

// Peers says how the members of a cluster reach each other: over TLS in both directions. The files are read anew
// for every connection, so that they can be rotated.
type Peers struct {
	Name     string       // of this member, unlike any other's
	Listener net.Listener // where it answers the others; the store closes it
	URL      string       // by which the others reach it: https://host:port

	CAFile, CertFile, KeyFile string
	User                      string // common name that the certificates of all members have, and nobody else's

	// Join is called when the directory holds no data. It makes this member known to a running cluster and returns all
	// who belong to it then, this one too. nil: this is the first member.
	Join func(ctx context.Context) ([]Peer, error)
}

// A Peer is one member of the cluster.
type Peer struct {
	ID      uint64
	Name    string // "": it has not started yet
	URL     string
	Learner bool // gets all writes, does not vote yet
}

// Remote says how to reach an etcd cluster. With an https endpoint the connection is verified with CAFile, or
// the system's authorities when that is empty; CertFile and KeyFile are read anew for every connection, so
// that they can be rotated.
type Remote struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	Keep                      time.Duration // history that compaction leaves, up to twice that; 0: 5 minutes
	Patience                  time.Duration // how long to wait for the first answer; 0: a minute
	Log                       *slog.Logger  // nil: the default logger
}

// The errors of calls about members that callers tell apart.
var (
	ErrAlone    = errors.New("the store of this server takes no other members") // or there is none in this process
	ErrNoMember = errors.New("no such member")
	ErrTaken    = errors.New("the place is taken") // by a member that lives, or one of the same name elsewhere
)

// A CorruptError says which part of a data directory can't be trusted. Nothing in the directory was changed.
type CorruptError struct {
	Dir  string
	Part string // what is broken
	Err  error  // how
}

// Error says which data, and what is wrong with it.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("data directory %s is corrupt: %s: %v. It was left as it is. To go on, move it away and restore a snapshot "+
		"in its place (kloop restore); what was written after the snapshot is lost then", e.Dir, e.Part, e.Err)
}

// Unwrap returns the error of the reader of the data.
func (e *CorruptError) Unwrap() error { return e.Err }

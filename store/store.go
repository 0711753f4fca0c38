// Package store is durable truth: keys, bytes and revisions. It knows nothing of kinds.
//
// A store is one sequence of writes. Each successful write gets the next revision, and the state at a
// revision is the state that all writes up to it left behind. Writes are linearizable and durable once acknowledged.
// The conformance suite in store/storetest is this page as tests; every implementation passes it.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors that callers tell apart with errors.Is. Anything else means that the store could not answer;
// a write that failed so may or may not have happened.
var (
	ErrCompacted = errors.New("revision is compacted away") // older than the history that is kept
	ErrFuture    = errors.New("revision is in the future")
	ErrTooLarge  = errors.New("value is too large for the store")
	ErrClosed    = errors.New("store is closed")
	ErrNoSpace   = errors.New("store is out of space") // refuses writes until space is made

	// ErrUnavailable says that the store can't be reached, or that too few of those that keep it can reach each other.
	ErrUnavailable = errors.New("store is unavailable")
)

// A ConflictError is returned by a write whose condition did not hold. Nothing was written.
type ConflictError struct {
	Current *KV   // what stands under the key now; nil when nothing does
	At      int64 // the store's revision when the condition was checked
}

// Error says what the store has at the key.
func (e *ConflictError) Error() string {
	if e.Current == nil {
		return fmt.Sprintf("key does not exist (at revision %d)", e.At)
	}
	return fmt.Sprintf("key is at revision %d", e.Current.ModRev)
}

// KV is one key and its value. Callers must not change Value.
type KV struct {
	Key       string
	Value     []byte
	CreateRev int64 // revision of the write that created the key
	ModRev    int64 // revision of the last write
	Err       error // why a value that is there can't be read, as when it was encrypted with another key; Value is nil then
}

// A Write is one conditional write.
type Write struct {
	Key    string
	Value  []byte        // nil deletes the key
	Expect int64         // ModRev that the key must have; 0: the key must not exist
	TTL    time.Duration // the store may forget the key after this (to the second, never earlier); 0: never
}

// An Event is one change of one key, as a watch tells it.
type Event struct {
	Rev  int64
	Key  string
	KV   *KV // the new state; nil when the key was deleted or expired
	Prev *KV // the state before; nil when the key was created, or when the implementation can't tell
}

// A Batch is the unit that a watch delivers: all events of one or more whole revisions, in order. Rev is the revision
// up to which the watch is now complete; a batch without events only moves Rev forward.
type Batch struct {
	Rev    int64
	Events []Event
}

// A Page is a part of a range read. All pages of one read show the same revision.
type Page struct {
	Rev  int64 // the revision that the page shows
	KVs  []KV  // in key order
	More bool  // keys remain after the last one
	Left int64 // how many of them
}

// A Store keeps keys. All methods may be called concurrently; they end early with the context's error. A
// write whose context ended may or may not have happened.
type Store interface {
	// Write performs w and returns its revision. It fails with *ConflictError when the condition does not
	// hold, so deleting a missing key is a conflict. Its errors leave it to the caller to say what was written.
	Write(ctx context.Context, w Write) (rev int64, err error)

	// Get reads one key, linearizably: it sees every write acknowledged before the call. A missing key is
	// no error: kv is nil. rev is the store's revision at the time.
	Get(ctx context.Context, key string) (kv *KV, rev int64, err error)

	// List reads the keys with the prefix that sort after `after` ("" for all), at most limit of them (0: no
	// limit), at revision rev (0: now, linearizably). ErrCompacted, ErrFuture.
	List(ctx context.Context, prefix, after string, limit int, rev int64) (Page, error)

	// Watch calls f with every change of keys with the prefix after revision `after`, in order, without gaps
	// or duplicates, until ctx ends (nil error), f fails (its error) or the history is gone (ErrCompacted).
	// f runs on one goroutine; a slow f delays only this watch. After quiet times a batch without events
	// arrives at least every few seconds when the revision moved for other keys' sake.
	Watch(ctx context.Context, prefix string, after int64, f func(Batch) error) error

	// Revision returns a revision not older than any write acknowledged before the call.
	Revision(ctx context.Context) (int64, error)

	// Compact forgets the history before rev; the state at rev and later stays readable.
	Compact(ctx context.Context, rev int64) error

	// Close ends the store after the writes in flight. Later calls fail with ErrClosed.
	Close() error
}

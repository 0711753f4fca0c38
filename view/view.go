// Package view is the level read: all kinds in memory at one revision, fed by one watch on the store's whole
// prefix. It answers the reads of the API server and of the loops with shared, unchanging objects.
//
// A Snapshot is the state at one revision; taking one copies nothing. A Cursor tells what changed since a
// revision, from a bounded history: watches and loops both live on it. Encodings of an object are made at
// most once per revision and shared by every GET, LIST and watcher.
package view

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// ErrExpired says that the history does not reach back to the asked revision: list again.
var ErrExpired = errors.New("too old resource version")

// An Entry is one object at one revision. It is immutable; its methods are safe for concurrent use.
type Entry struct {
	Kind   resource.Kind
	Rev    int64           // its resourceVersion
	Object resource.Object // of the hub version, resourceVersion set, shared: never change it

	enc encodings
}

// A Change is what one write did to one object.
type Change struct {
	Kind resource.Kind
	Rev  int64  // revision of the write
	Old  *Entry // nil: created
	New  *Entry // nil: deleted; Old then holds the last state
}

// A Batch is what a cursor hands out: the changes of whole revisions, in order, and the snapshot after them.
type Batch struct {
	Snapshot *Snapshot
	Changes  []Change
}

// The shape of the package, for readers of this file; see the files named.
type (
	// Viewer is what View implements (view.go).
	viewer interface {
		// Follow feeds the view from the store until ctx ends; ready is called once, when the view holds all.
		Follow(ctx context.Context, ready func()) error
		// Snapshot returns the newest state.
		Snapshot() *Snapshot
		// Wait returns a snapshot at rev or later.
		Wait(ctx context.Context, rev int64) (*Snapshot, error)
		// Offer tells the view, before a write, which object the value about to be written decodes to; the
		// view then takes the object instead of decoding the value again, and owns it from then on.
		Offer(key string, value []byte, obj resource.Object)
		// Cursor starts behind revision `after`; kinds limits what it reports (none: all).
		Cursor(after int64, kinds ...resource.Kind) *Cursor
	}
	// encoder is what Entry implements (encode.go).
	encoder interface {
		// JSON returns the object as JSON in the given served version, with kind and apiVersion.
		JSON(ctx context.Context, gvk schema.GroupVersionKind) ([]byte, error)
		// RawProto returns the bare protobuf message in the given served version.
		RawProto(ctx context.Context, gvk schema.GroupVersionKind) ([]byte, error)
	}
)

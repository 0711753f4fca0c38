// Package server is the front door: every operation on every kind, as plain Go calls. One file per verb.
// Package server/httpapi puts the wire in front of it; package client lets loops in the same process call it
// without HTTP. Built-in kinds and custom resources take the same path.
//
// The life of a write: authorize (the caller's duty: server/httpapi or client), decode, default, PrepareForWrite,
// admission (mutating), default again, validate, admission (validating), field ownership, store. Every write
// is a compare-and-swap on the revision that was read; the store's answer decides.
package server

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// Config holds the parts that a Server is made of. All are required unless said otherwise.
type Config struct {
	Kinds     *resource.Set
	Store     store.Store
	View      *view.View
	Admission admission.Chain
	Meter     *admission.Meter // how long it takes; may be nil
	Authorize auth.Authorizer  // asked by handlers that must check more than the request itself (binding, escalation…)
	Fields    *apply.Tracker
	Now       func() time.Time // nil: time.Now
	Random    func(p []byte)   // fills p with chance; nil: crypto/rand. A simulation that is to replay exactly sets it

	// Sole says that no other server writes to the store. Then the newest revision is known here, and reads
	// need not ask the store for it.
	Sole bool
	// NoWatchList refuses sendInitialEvents, as without the feature gate WatchList.
	NoWatchList bool
	// Trail notes every write; nil: nothing is noted.
	Trail Trail
	// Stale tells whether a key's value is stored in another form than a write would give it; nil: never. It is asked
	// for writes that change nothing.
	Stale func(ctx context.Context, key string) (bool, error)
}

// A Request says who asks for what. It belongs to one call.
type Request struct {
	User      *auth.User
	Kind      resource.Kind
	GVK       schema.GroupVersionKind // served version that the caller speaks
	Namespace string
	Name      string
	Sub       string // subresource; "" is the object itself

	DryRun  bool
	Manager string          // field manager; "" means the caller did not say (defaulted from UserAgent)
	Agent   string          // user agent
	Strict  FieldValidation // what to do with unknown and duplicate fields
	Warn    func(text string)
	// Annotate adds to the audit of the request; nil when there is none.
	Annotate func(key, value string)
	// Offer tells the caller of Watch events as its f does, but never blocks: it returns false, and has told nothing, when it
	// can't tell them at once. It is called by others than the caller of Watch, never beside f. nil: f alone.
	Offer func(events []Event) bool
	// Share tells the caller of Watch initial events as its f does, which others get as well. nil: f alone.
	Share func(p *Part) error

	direct bool // the server's own write: no admission
	many   bool // one of the objects of a deletecollection
	patch  bool // it came as a patch

	outdated bool // what was read is stored in another version: a write that changes nothing is done all the same
}

// FieldValidation is the fieldValidation query parameter.
type FieldValidation string

// The values of FieldValidation; empty means Warn.
const (
	FieldsIgnore FieldValidation = "Ignore"
	FieldsWarn   FieldValidation = "Warn"
	FieldsStrict FieldValidation = "Strict"
)

// A List is the result of a list: entries of one revision. The entries are in key order.
type List struct {
	Entries   []*view.Entry
	Revision  int64
	Continue  string
	Remaining *int64
}

// Operations is the front door's contract; *Server implements it. Objects given are owned by the call from
// then on; objects and entries returned are shared and must not be changed. All errors are *apierrors.StatusError
// or wrap one. Objects in and out are of Request.GVK when they are Objects, of the hub when they are Entries.
type Operations interface {
	Get(ctx context.Context, r *Request, opts *metav1.GetOptions) (*view.Entry, error)
	List(ctx context.Context, r *Request, opts *metav1.ListOptions) (*List, error)
	// Watch calls f with events in order until ctx ends (nil), the watch times out (nil) or f fails. It returns
	// an error before the first call of f when the watch can't start. f gets batches to flush together. Once
	// the watch stands and its initial events are delivered, f is called with an empty batch.
	Watch(ctx context.Context, r *Request, opts *metav1.ListOptions, f func([]Event) error) error
	// Create stores obj. The returned entry carries the revision of the write (not for a dry run).
	Create(ctx context.Context, r *Request, obj resource.Object) (*view.Entry, error)
	// Update replaces the object, or the part that r.Sub names. created says that a missing object was made.
	Update(ctx context.Context, r *Request, obj resource.Object) (e *view.Entry, created bool, err error)
	// Patch changes the object by a patch; an apply patch creates it when missing.
	Patch(ctx context.Context, r *Request, pt types.PatchType, data []byte, force bool) (e *view.Entry, created bool, err error)
	// Delete removes the object or marks it for removal. gone says that it is removed now; e is its last state.
	Delete(ctx context.Context, r *Request, opts *metav1.DeleteOptions) (e *view.Entry, gone bool, err error)
	// DeleteCollection deletes what the list options select and returns the last states.
	DeleteCollection(ctx context.Context, r *Request, opts *metav1.DeleteOptions, which *metav1.ListOptions) (*List, error)
	// Call performs a subresource or virtual kind that is code rather than data: binding, eviction, token,
	// scale, reviews. in may be nil. An answer of nil is a success with nothing to tell (Status, 201).
	Call(ctx context.Context, r *Request, verb string, in resource.Object) (out resource.Object, err error)
}

// An Event is one watch event. Entry is nil for bookmarks.
type Event struct {
	Type    EventType
	Entry   *view.Entry
	Rev     int64 // resourceVersion to tell: for DELETED that of the deletion
	Initial bool  // bookmark that ends the initial events
}

// EventType is the type of a watch event.
type EventType string

// The types.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
	Failed   EventType = "ERROR"
)

// Package client is a loop's access to the cluster: reads from an unchanging snapshot, a feed of changes,
// and writes through the front door. Local calls the server in the same process; Remote speaks HTTP. A loop
// can't tell them apart.
package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
)

// A Client acts for one user. Its methods are safe for concurrent use. Objects passed in are not changed and
// not kept; objects returned are shared: Clone before changing. Errors are *apierrors.StatusError as any
// client of Kubernetes knows them, or the context's error.
type Client interface {
	// Kinds is the set of kinds that the cluster serves. It grows and shrinks with CRDs.
	Kinds() *resource.Set
	// Read returns the newest state known here. It costs nothing. The state holds every write that this
	// client has made itself once the write has returned (Local), or soon after (Remote: compare Revision).
	Read() resource.Reader
	// Feed tells what changes in the given kinds (none: in all). Its first batch is a Reset.
	Feed(kinds ...resource.Kind) Feed

	// Get reads one object linearizably.
	Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error)
	// Create stores a new object and returns it as stored.
	Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error)
	// Update replaces the object, or only its part that sub names ("status", …). An object that carries a
	// resourceVersion is replaced only if it is still at that revision.
	// Of the subresource scale it takes a Scale, and answers with one.
	Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error)
	// Patch changes the object.
	Patch(ctx context.Context, k resource.Kind, ns, name string, p Patch) (resource.Object, error)
	// Delete removes the object or asks for its removal. A missing object is a NotFound error.
	Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error
	// Call posts to a subresource that is code: binding, eviction, token. It returns the answer.
	Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error)
}

// A Patch is a change in one of the wire's forms.
type Patch struct {
	Type  types.PatchType
	Data  []byte
	Sub   string
	Force bool // of an apply patch: take fields that others own
	// Manager owns what is written; "" is the client's own.
	Manager string
	// DryRun has all checks made and nothing stored.
	DryRun bool

	As schema.GroupVersionKind // of the served versions, the one that Data is in; none: the stored one
}

// A Change is the effect of one write on one object.
type Change struct {
	Kind resource.Kind
	Rev  int64
	Old  resource.Object // nil: created
	New  resource.Object // nil: deleted; Old is the last state
}

// Object returns the newer side of the change.
func (c Change) Object() resource.Object {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// A Batch is the next piece of a feed. A Reset carries no changes and means: look at everything in Read.
type Batch struct {
	Read    resource.Reader
	Changes []Change
	Reset   bool
}

// A Feed is one reader's place in the stream of changes. It is not safe for concurrent use.
type Feed interface {
	// Next waits for changes and returns all that there are, within a bound. It fails only with ctx. A batch is the caller's
	// to keep, unless it said Reuse.
	Next(ctx context.Context) (Batch, error)
	// Reuse says, before the first Next, that the caller is done with the Changes of a batch when it asks for the next one: they
	// may be overwritten then. A feed that has nothing to gain from it takes no notice.
	Reuse()
}

// UpdateStatus is Update of the status subresource with the type kept.
func UpdateStatus[T resource.Object](ctx context.Context, c Client, d *resource.Def[T], obj T) (T, error) {
	out, err := c.Update(ctx, d, obj, "status")
	if err != nil {
		var none T
		return none, err
	}
	return resource.As[T](out), nil
}

// Find returns an object from the state at hand, or asks the server: the state may lack the kind, or be behind.
func Find[T resource.Object](ctx context.Context, c Client, d *resource.Def[T], ns, name string) (T, error) {
	if obj := c.Read().Lookup(d, ns, name); obj != nil {
		return resource.As[T](obj), nil
	}
	obj, err := c.Get(ctx, d, ns, name)
	if err != nil {
		var none T
		return none, err
	}
	return resource.As[T](obj), nil
}

package server

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// An Extension adds to the front door what one kind needs beyond its Def, as the registry strategies and REST storages of
// upstream are. Every field may be left out. Functions are called in this order, by many requests at once; objects are in the hub
// version, and old is nil for a new object.
type Extension struct {
	Resource schema.GroupResource // the kind's; empty: all kinds that users define

	OwnNamespace bool // to admission, an object is in the namespace of its own name
	Graceful     bool // objects are given time to end: resource.Kind.GraceOf
	Uncollected  bool // the garbage collector does not know the kind: no deletion waits for dependents

	// OldMeta says that the version which the caller speaks has the metadata rules of old: findings are reported once, after those of
	// the kind and only without them, and finalizers need no domain.
	OldMeta func(r *Request) bool
	// CheckName is the rule for names, in the place of the kind's.
	CheckName func(r *Request, name string, prefix bool) []string

	// Open may refuse a new object before anything is done about it.
	Open func(r *Request, obj resource.Object) error
	// Admit may refuse what mutating admission made of the object, valid or not. It is not asked about the server's own writes.
	Admit func(ctx context.Context, r *Request, obj, old resource.Object) error
	// Allocate gives the object what must be unique in the cluster, before it is validated. done, which may be nil, is called with
	// the outcome of the write: an error for which Doubtful is true leaves open whether it was done.
	Allocate func(ctx context.Context, r *Request, obj, old resource.Object) (done func(ctx context.Context, err error), err error)
	// Validate returns errs, what the kind's own rules say, and its own findings.
	Validate func(ctx context.Context, r *Request, obj, old resource.Object, errs field.ErrorList) field.ErrorList
	// Held says that an object under deletion without finalizers is held back all the same.
	Held func(obj resource.Object) bool
	// Delete deletes cur in its own way; obj is a copy that may be changed and stored in its place. It says whether cur is gone.
	Delete func(ctx context.Context, r *Request, opts *metav1.DeleteOptions, obj resource.Object,
		cur *view.Entry) (*view.Entry, bool, error)
	// Failed begins the error of a deletion of that way whose precondition does not hold.
	Failed string
	// AfterWrite follows a stored update, and a deletion, for which obj is nil.
	AfterWrite func(ctx context.Context, r *Request, old, obj resource.Object)
	// Doubt follows a deletion of which nobody knows whether it was done.
	Doubt func()

	// Compute makes the objects of a kind that can be read though nothing of it is stored.
	Compute Compute
	// Calls handle POST where it does not store the body, by subresource; "" is a virtual kind itself.
	Calls map[string]Call
}

// A Call is code behind a subresource or a virtual kind. in is the posted object.
type Call func(ctx context.Context, r *Request, in resource.Object) (resource.Object, error)

// Extend adds extensions, at most one of a resource. It must be called before the server takes requests.
func (s *Server) Extend(list ...Extension) {
	for i := range list {
		if list[i].Resource.Empty() {
			s.custom = list[i]
		} else {
			s.extensions[list[i].Resource] = &list[i]
		}
	}
}

// allocate gives the object what must be unique.
func (s *Server) allocate(ctx context.Context, r *Request, obj, old resource.Object) (done func(context.Context, error), err error) {
	if x := s.extension(r.Kind); x.Allocate != nil {
		if done, err = x.Allocate(ctx, r, obj, old); err != nil || done != nil {
			return done, err
		}
	}
	return func(context.Context, error) {}, nil
}

// oldMeta says that the caller's version of the kind has the metadata rules of old.
func (s *Core) oldMeta(r *Request) bool {
	old := s.extension(r.Kind).OldMeta
	return old != nil && old(r)
}

// Internal says that the request is the server's own write, about which admission is not asked.
func (r *Request) Internal() bool { return r.direct }

// ByPatch says that the request is a patch: the caller was asked for permission to patch, not to update.
func (r *Request) ByPatch() bool { return r.patch }

// Many says that the request is for one of the objects of a deletecollection.
func (r *Request) Many() bool { return r.many }

// Admitted is the request without admission, which has judged already what leads to it.
func (r *Request) Admitted() *Request {
	own := *r
	own.direct = true
	return &own
}

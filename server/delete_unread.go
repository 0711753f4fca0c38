package server

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/store"
)

// unread says that the caller wants an object gone whatever is stored of it. While the feature is off, the option says
// nothing: it is taken out of what is returned, which is opts if nothing had to be.
func (s *Server) unread(opts *metav1.DeleteOptions) (bool, *metav1.DeleteOptions) {
	asked := opts.IgnoreStoreReadErrorWithClusterBreakingPotential
	if asked == nil || s.Kinds.Features().On("AllowUnsafeMalformedObjectDeletion") {
		return asked != nil && *asked, opts
	}
	without := *opts
	without.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	return false, &without
}

// deleteUnread deletes an object that can't be read, and only such: no preconditions, no finalizers, no admission.
func (s *Server) deleteUnread(ctx context.Context, r *Request) error {
	if err := s.may(ctx, r, "unsafe-delete-ignore-read-errors"); err != nil {
		return err
	}
	if r.Kind.Info().KeptUnread {
		return apierrors.NewInternalError(errors.New("no unsafe deleter provided, can not honor " +
			"ignoreStoreReadErrorWithClusterBreakingPotential"))
	}
	key := r.Kind.Info().Key(r.Namespace, r.Name)
	kv, _, err := s.Store.Get(ctx, key)
	switch {
	case err != nil:
		return StoreError(err, "read what is to be deleted")
	case kv == nil:
		return NotFound(r)
	}
	snap, err := s.Fresh(ctx)
	if err != nil {
		return err
	}
	readable := apierrors.NewConflict(r.Resource(), r.Name, errors.New("StorageError: invalid object, Code: 4, Key: "+key+
		", ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"))
	if snap.Entry(r.Kind, r.Namespace, r.Name) != nil {
		return readable
	}
	if r.DryRun {
		return nil
	}
	_, err = s.Store.Write(ctx, store.Write{Key: key, Expect: kv.ModRev})
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		return readable // or it was a moment ago
	}
	if err != nil {
		return StoreError(err, "delete "+key)
	}
	return nil
}

// noUnread refuses the option for whole collections.
func noUnread() error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{
		field.Invalid(field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"), true,
			"is not allowed with DELETECOLLECTION, try again after removing the option")})
}

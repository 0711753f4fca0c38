package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// A change makes a new object of an old one. It may be asked several times, when others write meanwhile.
type change struct {
	// next returns the object that the caller wants, in the hub version; it may be changed. cur is the stored
	// one, nil when there is none.
	next   func(ctx context.Context, cur *view.Entry) (resource.Object, error)
	create bool      // a missing object is made
	owned  bool      // next records the ownership of fields itself
	uid    types.UID // that an object which would be made must have, so that it is not made; "" for any
}

// modify performs a change of an object, over again when another writer was faster.
func (s *Server) modify(ctx context.Context, r *Request, c *change) (e *view.Entry, created bool, err error) {
	err = s.Repeat(ctx, r, func(cur *view.Entry) (err error) {
		e, created, err = s.attempt(ctx, r, c, cur)
		return err
	})
	return e, created && err == nil, err
}

// attempt performs a change on what is read. It fails with *store.ConflictError when that is out of date.
func (s *Server) attempt(ctx context.Context, r *Request, c *change, cur *view.Entry) (*view.Entry, bool, error) {
	if cur == nil {
		e, err := s.makeMissing(ctx, r, c)
		return e, true, err
	}
	read := cur
	cur, err := inHub(ctx, cur)
	if err != nil {
		return nil, false, err
	}
	r.outdated = cur != read
	old := resource.Opened(cur.Object)
	obj, err := c.next(ctx, cur)
	if err != nil {
		return nil, false, err
	}
	if err := checkPreconditions(r, obj, cur); err != nil {
		return nil, false, err
	}
	singleOwners(r, obj, afterAdmission)
	r.Kind.SetDefaults(s.Kinds.Features(), obj)
	if !c.owned && !s.untouched(r, obj, cur.Object) {
		if err := s.owners.track(ctx, r, old, obj); err != nil {
			return nil, false, err
		}
	}
	q := s.admissionRequest(r, admission.Update, obj, old, updateOptions(r))
	if err := s.mutate(ctx, r, q); err != nil {
		return nil, false, err
	}
	obj = q.Object
	singleOwners(r, obj, afterAdmission)
	r.Kind.SetDefaults(s.Kinds.Features(), obj)
	s.settle(r, obj, old)
	done, err := s.allocate(ctx, r, obj, old)
	if err != nil {
		return nil, false, err
	}
	e, err := s.replace(ctx, r, q, obj, cur)
	done(ctx, err)
	return e, false, err
}

// inHub returns an entry with its object in the hub version. One that is stored in another version, which only a
// webhook can convert, is not so in the view.
func inHub(ctx context.Context, cur *view.Entry) (*view.Entry, error) {
	hub := cur.Kind.Info().GVK
	if !cur.Kind.Info().Custom || cur.Object.GetObjectKind().GroupVersionKind() == hub {
		return cur, nil
	}
	obj, err := cur.Kind.ConvertTo(ctx, cur.Object, hub)
	if err != nil {
		return nil, PlainError(err.Error())
	}
	return view.NewEntry(cur.Kind, cur.Rev, obj), nil
}

// makeMissing makes the object that a change of a missing object wants, if it may.
func (s *Server) makeMissing(ctx context.Context, r *Request, c *change) (*view.Entry, error) {
	switch {
	case c.uid != "":
		return nil, wrongUID(r, c.uid, "")
	case !c.create:
		return nil, NotFound(r)
	}
	obj, err := c.next(ctx, nil)
	if err != nil {
		return nil, err
	}
	if uid := obj.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(r.Resource(), r.Name, errors.New("uid mismatch: the provided object specified uid "+
			string(uid)+", and no existing object was found"))
	}
	if err := s.may(ctx, r, "create"); err != nil {
		return nil, err
	}
	obj.SetResourceVersion("")
	wipe(obj)
	e, err := s.insert(ctx, r, obj, !c.owned)
	if apierrors.IsAlreadyExists(err) && !r.DryRun { // somebody made it just now: start over with that
		return nil, &store.ConflictError{At: s.acked.Load()}
	}
	return e, err
}

// may asks whether the caller may also do something else to the object of the request.
func (s *Server) may(ctx context.Context, r *Request, verb string) error {
	if s.Authorize == nil {
		return nil
	}
	gvk := r.Kind.Info().GVK
	a := &auth.Attributes{User: r.User, Verb: verb, Group: gvk.Group, Version: gvk.Version, Resource: r.Kind.Info().Plural,
		Subresource: r.Sub, Namespace: r.Namespace, Name: r.Name}
	d, reason, err := s.Authorize.Authorize(ctx, a)
	if d == auth.Allow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return auth.Forbidden(a, reason)
}

// checkPreconditions checks what the caller knows of the object against what it is.
func checkPreconditions(r *Request, obj resource.Object, cur *view.Entry) error {
	if err := checkNamespace(r, obj); err != nil {
		return err
	}
	rev, err := parseRevision(obj.GetResourceVersion())
	if err != nil {
		return PlainError(err.Error())
	}
	if i := r.Kind.Info(); rev == 0 && (i.NeedsRevision || i.Custom) {
		gk := schema.GroupKind{Group: r.Spoken().Group, Kind: i.Plural}
		return apierrors.NewInvalid(gk, r.Name, field.ErrorList{
			field.Invalid(metadataPath.Child("resourceVersion"), rev, "must be specified for an update")})
	}
	if rev != 0 && rev != cur.Rev {
		return conflict(r)
	}
	return nil
}

// sameUID checks the uid that an update names.
func sameUID(r *Request, obj resource.Object, cur *view.Entry) error {
	if uid := obj.GetUID(); uid != "" && cur != nil && uid != cur.Object.GetUID() {
		return wrongUID(r, uid, cur.Object.GetUID())
	}
	return nil
}

func wrongUID(r *Request, want, have types.UID) error {
	return apierrors.NewConflict(r.Resource(), r.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, "+
		"ResourceVersion: 0, AdditionalErrorMsg: %w", r.Kind.Info().Key(r.Namespace, r.Name), unmetUID(want, have)))
}

// otherUID says that what is stored by a name is not the object that was meant.
func otherUID(gr schema.GroupResource, name string, want, have types.UID) error {
	return apierrors.NewConflict(gr, name, unmetUID(want, have))
}

func unmetUID(want, have types.UID) error {
	return errors.New("Precondition failed: UID in precondition: " + string(want) + ", UID in object meta: " + string(have))
}

// untouched says that an update is none, so that nobody's ownership changes. obj gets the managedFields of
// old if it came without. A write of the scale takes the replicas from their owner, whatever their number; and
// an owner with two entries, as after an applied scale, gets one.
func (s *Server) untouched(r *Request, obj, old resource.Object) bool {
	if r.Sub == "scale" || apply.Doubled(old.GetManagedFields()) || apply.Strangers(r.Kind, r.Spoken(), old) {
		return false
	}
	if obj.GetManagedFields() == nil {
		obj.SetManagedFields(old.GetManagedFields())
	}
	return same(r.Kind, obj, old) && sameWords(obj, old)
}

// sameWords tells an empty list from none, which is a change to who owns it, though not always to what is stored.
func sameWords(obj, old resource.Object) bool {
	if reflect.DeepEqual(obj, old) {
		return true
	}
	a, err := codec.MarshalJSON(obj)
	b, err2 := codec.MarshalJSON(old)
	return err == nil && err2 == nil && bytes.Equal(a, b) && !holdsEmpty(reflect.ValueOf(obj))
}

// replace takes a changed object through the remaining checks and stores it.
func (s *Server) replace(ctx context.Context, r *Request, q *admission.Request, obj resource.Object, cur *view.Entry) (*view.Entry, error) {
	k, old := r.Kind, q.Old
	if errs := s.rules.check(ctx, r, obj, old); len(errs) > 0 {
		return nil, refusal(ctx, r, obj, errs)
	}
	if r.Sub == "" || r.Sub == "scale" { // a write of a status gets no warnings of the spec
		for _, text := range k.Warnings(s.Kinds.Features(), obj, old) {
			r.warn(text)
		}
	}
	q.Object = obj
	if err := s.validate(ctx, r, q); err != nil {
		return nil, err
	}
	if s.released(k, obj, old) {
		return s.release(ctx, r, obj, cur)
	}
	if same(k, obj, cur.Object) && (r.DryRun || !r.outdated && !s.stale(ctx, cur, obj)) {
		return cur, nil
	}
	if r.DryRun {
		obj.SetResourceVersion(old.GetResourceVersion())
		return view.NewEntry(k, cur.Rev, obj), nil
	}
	e, err := s.Put(ctx, k, obj, cur, resource.Expiry(k, obj))
	if err == nil {
		s.note(ctx, r, old, e.Object, e.Rev)
		if after := s.extension(k).AfterWrite; after != nil {
			after(ctx, r, old, e.Object)
		}
	}
	return e, err
}

// settle restores from old what this path may not change, and counts the generation on.
func (s *Server) settle(r *Request, obj, old resource.Object) {
	k := r.Kind
	if keep(obj, old); !r.DryRun { // upstream takes it out where it stores
		obj.SetSelfLink("")
	}
	sub := r.Sub
	if sub == "scale" {
		sub = ""
	}
	k.PrepareForWrite(s.Kinds.Features(), sub, obj, old)
	if resource.CountsGeneration(s.Kinds.Features(), k) && sub != "status" && respecified(k, obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

package server

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// nameTries is the number of names that are tried for an object with generateName.
const nameTries = 8

// Create implements Operations.
func (s *Server) Create(ctx context.Context, r *Request, obj resource.Object) (*view.Entry, error) {
	if r.Kind.Info().Virtual || r.Sub != "" {
		return nil, NotAllowed(r, "create")
	}
	hub, err := r.ToHub(ctx, obj)
	if err != nil {
		return nil, err
	}
	wipe(hub)
	if err := checkNamespace(r, hub); err != nil {
		return nil, err
	}
	singleOwners(r, hub, "")
	if hub.GetGenerateName() == "" || hub.GetName() != "" {
		return s.insert(ctx, r, hub, true)
	}
	for try := 1; ; try++ {
		e, err := s.insert(ctx, r, resource.Clone(hub), true)
		if err == nil || !apierrors.IsAlreadyExists(err) || try == nameTries {
			return e, err
		}
	}
}

// insert takes a new object through all checks and stores it. tracked says that ownership of its fields is
// still to be recorded.
func (s *Server) insert(ctx context.Context, r *Request, obj resource.Object, tracked bool) (*view.Entry, error) {
	k := r.Kind
	if open := s.extension(k).Open; open != nil {
		if err := open(r, obj); err != nil {
			return nil, err
		}
	}
	k.SetDefaults(s.Kinds.Features(), obj)
	if tracked {
		if err := s.owners.track(ctx, r, nil, obj); err != nil {
			return nil, err
		}
	}
	q := s.admissionRequest(r, admission.Create, obj, nil, createOptions(r))
	if err := s.mutate(ctx, r, q); err != nil {
		return nil, err
	}
	obj = q.Object
	singleOwners(r, obj, afterAdmission)
	obj.SetUID(s.NewUID())
	obj.SetCreationTimestamp(s.Stamp())
	if base := obj.GetGenerateName(); obj.GetName() == "" && base != "" {
		if obj.SetName(base); !k.Info().GenerateNameLiteral {
			obj.SetName(s.generateName(base))
		}
	}
	k.SetDefaults(s.Kinds.Features(), obj)
	if resource.CountsGeneration(s.Kinds.Features(), k) {
		obj.SetGeneration(1)
	}
	k.PrepareForWrite(s.Kinds.Features(), "", obj, nil)
	done, err := s.allocate(ctx, r, obj, nil)
	if err != nil {
		return nil, err
	}
	e, err := s.finishInsert(ctx, r, q, obj)
	done(ctx, err)
	return e, err
}

func (s *Server) finishInsert(ctx context.Context, r *Request, q *admission.Request, obj resource.Object) (*view.Entry, error) {
	k := r.Kind
	if errs := s.rules.check(ctx, r, obj, nil); len(errs) > 0 {
		return nil, refusal(ctx, r, obj, errs)
	}
	for _, text := range k.Warnings(s.Kinds.Features(), obj, nil) {
		r.warn(text)
	}
	if q.Object = obj; q.Name == "" {
		q.Name = obj.GetName()
	}
	if err := s.validate(ctx, r, q); err != nil {
		return nil, err
	}
	if r.DryRun {
		return s.insertDry(ctx, r, obj)
	}
	if rev, err := parseRevision(obj.GetResourceVersion()); err == nil && rev != 0 { // what is no revision is passed over
		return nil, PlainError("resourceVersion should not be set on objects to be created")
	}
	e, err := s.Put(ctx, k, obj, nil, resource.Expiry(k, obj))
	var c *store.ConflictError
	if errors.As(err, &c) {
		return nil, s.alreadyExists(ctx, r, obj, c)
	}
	if err == nil {
		s.note(ctx, r, nil, e.Object, e.Rev)
	}
	return e, err
}

func (s *Server) insertDry(ctx context.Context, r *Request, obj resource.Object) (*view.Entry, error) {
	snap, err := s.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	if e := snap.Entry(r.Kind, obj.GetNamespace(), obj.GetName()); e != nil {
		return nil, exists(r, obj, e.Object)
	}
	return view.NewEntry(r.Kind, 0, obj), nil
}

// alreadyExists says that the name is in use, and whether its owner is on the way out.
func (s *Server) alreadyExists(ctx context.Context, r *Request, obj resource.Object, c *store.ConflictError) error {
	if err := s.after(ctx, c); err != nil {
		return exists(r, obj, nil)
	}
	return exists(r, obj, s.View.Entry(r.Kind, obj.GetNamespace(), obj.GetName()).Found())
}

func createOptions(r *Request) *metav1.CreateOptions {
	return &metav1.CreateOptions{TypeMeta: optionsType("CreateOptions"), DryRun: DryRun(r), FieldManager: r.Manager,
		FieldValidation: string(r.Strict)}
}

func updateOptions(r *Request) *metav1.UpdateOptions {
	return &metav1.UpdateOptions{TypeMeta: optionsType("UpdateOptions"), DryRun: DryRun(r), FieldManager: r.Manager,
		FieldValidation: string(r.Strict)}
}

func optionsType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: kind}
}

// DryRun returns the field dryRun of the options that admission plugins and webhooks see with r.
func DryRun(r *Request) []string {
	if r.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

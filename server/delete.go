package server

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// Delete implements Operations. Finalizers, the grace of pods and the content of namespaces delay the
// removal: then the object is marked with a deletionTimestamp and gone is false.
func (s *Server) Delete(ctx context.Context, r *Request, opts *metav1.DeleteOptions) (e *view.Entry, gone bool, err error) {
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	unread, opts := s.unread(opts)
	if err := CheckDeleteOptions(opts); err != nil {
		return nil, false, err
	}
	if slices.Contains(opts.DryRun, metav1.DryRunAll) && !r.DryRun {
		dry := *r
		dry.DryRun, r = true, &dry
	}
	if unread {
		return nil, true, s.deleteUnread(ctx, r)
	}
	err = s.Repeat(ctx, r, func(cur *view.Entry) (err error) {
		if e != nil && (cur == nil || cur.Object.GetUID() != e.Object.GetUID()) {
			gone = true // this call marked it, and whoever cleans up was faster than the removal
			return nil
		}
		var last *view.Entry
		if last, gone, err = s.deleteOnce(ctx, r, opts, cur); last != nil {
			e = last
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return e, gone, nil
}

// CheckDeleteOptions refuses options of a deletion that exclude each other or are out of range, with a 422.
func CheckDeleteOptions(opts *metav1.DeleteOptions) error {
	if errs := metavalidation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}

// deleteOnce deletes what is read. It fails with *store.ConflictError when that is out of date.
func (s *Server) deleteOnce(ctx context.Context, r *Request, opts *metav1.DeleteOptions, cur *view.Entry) (*view.Entry, bool, error) {
	if cur == nil {
		return nil, false, NotFound(r)
	}
	if _, err := spoken(ctx, r, cur.Object); err != nil {
		return nil, false, err
	}
	x := s.extension(r.Kind)
	if err := x.checkPreconditions(r, opts.Preconditions, cur.Object); err != nil {
		return nil, false, err
	}
	if err := s.admitDelete(ctx, r, opts, cur.Object); err != nil {
		return nil, false, err
	}
	if x.Delete != nil {
		return x.Delete(ctx, r, opts, resource.Clone(cur.Object), cur)
	}
	obj := resource.Shallow(cur.Object) // of a deletion only metadata is set
	if x.Graceful {
		return s.deleteGracefully(ctx, r, opts, obj, cur)
	}
	return s.DeletePlainly(ctx, r, opts, obj, cur)
}

// DeletePlainly deletes cur as most kinds are: at once, or marked for whoever holds it by a finalizer. obj is a copy with metadata of its
// own.
func (s *Core) DeletePlainly(ctx context.Context, r *Request, opts *metav1.DeleteOptions,
	obj resource.Object, cur *view.Entry) (*view.Entry, bool, error) {
	held := len(obj.GetFinalizers()) > 0
	obj.SetFinalizers(s.Collected(r.Kind, obj, opts))
	if len(obj.GetFinalizers()) == 0 {
		if held && r.DryRun { // as upstream, which has not read the object again
			return view.NewEntry(r.Kind, 0, r.Kind.New(r.Kind.Info().GVK)), false, nil
		}
		return s.DeleteNow(ctx, r, cur)
	}
	s.mark(obj)
	e, err := s.Overwrite(ctx, r, obj, cur)
	return e, false, err
}

// checkPreconditions is CheckPreconditions in the words of the kind.
func (x *Extension) checkPreconditions(r *Request, p *metav1.Preconditions, obj resource.Object) error {
	if err := CheckPreconditions(r, p, obj); err == nil || x.Failed == "" {
		return err
	}
	what, want, have := "ResourceVersion", p.ResourceVersion, obj.GetResourceVersion()
	if p.UID != nil && *p.UID != obj.GetUID() {
		what, want, have = "UID", (*string)(p.UID), string(obj.GetUID())
	}
	return apierrors.NewConflict(r.Resource(), obj.GetName(), fmt.Errorf("%s: %s in precondition: %s, %s in object meta: %s", x.Failed,
		what, *want, what, have))
}

// CheckPreconditions checks the preconditions of a deletion.
func CheckPreconditions(r *Request, p *metav1.Preconditions, obj resource.Object) error {
	if p == nil {
		return nil
	}
	refuse := func(what, asked, is, why string) error {
		gvk := r.Kind.Info().GVK
		gr := schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind} // upstream names the kind here
		return apierrors.NewConflict(gr, obj.GetName(), fmt.Errorf("the %s in the precondition (%s) does not match the %s in record (%s). "+
			"The object might have been %s", what, asked, what, is, why))
	}
	if p.UID != nil && *p.UID != obj.GetUID() {
		return refuse("UID", string(*p.UID), string(obj.GetUID()), "deleted and then recreated")
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return refuse("ResourceVersion", *p.ResourceVersion, obj.GetResourceVersion(), "modified")
	}
	return nil
}

func (s *Server) admitDelete(ctx context.Context, r *Request, opts *metav1.DeleteOptions, old resource.Object) error {
	if len(s.Admission) == 0 || r.direct {
		return nil
	}
	q := s.admissionRequest(r, admission.Delete, nil, old, opts)
	if r.many { // as upstream: who deletes a collection names no object
		q.Name = ""
	}
	if err := s.Admission.Mutate(ctx, q); err != nil {
		return err
	}
	return s.Admission.Validate(ctx, q)
}

// Collected returns the finalizers of an object under deletion: with those of the garbage collector that the
// policy, or what the object carries, or the kind's habit asks for.
func (s *Core) Collected(k resource.Kind, obj resource.Object, opts *metav1.DeleteOptions) []string {
	old := obj.GetFinalizers()
	orphan := slices.Contains(old, metav1.FinalizerOrphanDependents)
	foreground := !orphan && slices.Contains(old, metav1.FinalizerDeleteDependents)
	asked := true
	switch {
	case opts.OrphanDependents != nil: //nolint:staticcheck // old clients still send it
		orphan, foreground = *opts.OrphanDependents, false //nolint:staticcheck // as above
	case opts.PropagationPolicy != nil:
		orphan = *opts.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *opts.PropagationPolicy == metav1.DeletePropagationForeground
	default:
		asked = orphan || foreground
	}
	if !asked {
		orphan = k.Info().OrphanByDefault
	}
	if s.extension(k).Uncollected {
		orphan, foreground = false, false
	}
	var list []string
	for _, f := range old {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			list = append(list, f)
		}
	}
	if orphan {
		list = append(list, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		list = append(list, metav1.FinalizerDeleteDependents)
	}
	if sets.New(old...).Equal(sets.New(list...)) { // in the order that they have
		return old
	}
	return list
}

// mark gives an object the deletionTimestamp of now.
func (s *Core) mark(obj resource.Object) {
	now := s.Stamp()
	if obj.GetDeletionTimestamp() == nil && obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	if t := obj.GetDeletionTimestamp(); t == nil || t.After(now.Time) {
		obj.SetDeletionTimestamp(&now)
	}
	obj.SetDeletionGracePeriodSeconds(new(int64))
}

// deleteGracefully deletes an object whose owner (of a pod: the node agent) needs time. First it is marked;
// it goes when the owner deletes it with no grace, or at once if there is nobody to wait for.
func (s *Server) deleteGracefully(ctx context.Context, r *Request, opts *metav1.DeleteOptions,
	obj resource.Object, cur *view.Entry) (*view.Entry, bool, error) {
	asked := opts.GracePeriodSeconds
	if asked != nil && *asked < 0 {
		asked = new(int64)
		*asked = 1
	}
	grace, changed := s.shorten(r.Kind, obj, asked)
	if !changed && grace > 0 {
		return cur, false, nil // under way already
	}
	obj.SetFinalizers(s.Collected(r.Kind, obj, opts))
	held := len(obj.GetFinalizers()) > 0
	if !changed && held {
		s.mark(obj)
	}
	if changed || held {
		e, err := s.Overwrite(ctx, r, obj, cur)
		if err != nil || held || grace > 0 {
			return e, false, err
		}
		if r.DryRun {
			return e, true, nil
		}
		last, gone, err := s.DeleteNow(ctx, r, e)
		if err != nil {
			last = e // marked by this call: see Delete
		}
		return last, gone, err
	}
	return s.DeleteNow(ctx, r, cur)
}

// shorten sets when the object is to be gone; later deletions may only shorten the time. changed says
// that it did something; if it did not, grace is the time still to wait.
func (s *Server) shorten(k resource.Kind, obj resource.Object, asked *int64) (grace int64, changed bool) {
	was := obj.GetDeletionGracePeriodSeconds()
	if obj.GetDeletionTimestamp() == nil {
		grace = resource.GraceOf(k, obj, asked)
		at := metav1.Time{Time: s.Stamp().Add(resource.Seconds(grace))}
		obj.SetDeletionTimestamp(&at)
		obj.SetDeletionGracePeriodSeconds(&grace)
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		return grace, true
	}
	if was == nil || *was == 0 {
		return 0, false
	}
	if asked == nil || *asked >= *was {
		return *was, false
	}
	grace = *asked
	at := metav1.Time{Time: obj.GetDeletionTimestamp().Add(resource.Seconds(grace) - resource.Seconds(*was))}
	if now := s.Stamp(); at.Time.Before(now.Time) {
		at = now
		if grace > 0 {
			grace = 1 // the owner still gets to see it
		}
	}
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&grace)
	return grace, true
}

// released says that an update took away the last thing that held an object under deletion back.
func (s *Server) released(k resource.Kind, obj, old resource.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if g := old.GetDeletionGracePeriodSeconds(); g != nil && *g > 0 {
		return false
	}
	held := s.extension(k).Held
	return held == nil || !held(obj)
}

// release removes such an object. The answer is the object as the caller wanted it.
func (s *Server) release(ctx context.Context, r *Request, obj resource.Object, cur *view.Entry) (*view.Entry, error) {
	obj.SetResourceVersion(cur.Object.GetResourceVersion())
	if _, _, err := s.DeleteNow(ctx, r, cur); err != nil {
		return nil, err
	}
	return view.NewEntry(r.Kind, cur.Rev, obj), nil
}

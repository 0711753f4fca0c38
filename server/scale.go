package server

import (
	"context"
	"fmt"
	"math"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// scales is the kind of scale subresources: entries of it encode themselves like any other.
var scales = scaleKind(func(c []resource.Column[*autoscalingv1.Scale]) { c[0].Format = "" })

// customScales is the same for custom resources, whose tables have other types.
var customScales = scaleKind(func(c []resource.Column[*autoscalingv1.Scale]) { c[3].Type = "date" })

func scaleKind(set func([]resource.Column[*autoscalingv1.Scale])) *resource.Def[*autoscalingv1.Scale] {
	type scale = *autoscalingv1.Scale
	columns := []resource.Column[scale]{
		resource.Name(func(s scale) any { return s.Name }),
		resource.Col("Desired", "integer", func(s scale) any { return s.Spec.Replicas }),
		resource.Col("Available", "integer", func(s scale) any { return s.Status.Replicas }),
		resource.Age[scale](),
	}
	set(columns)
	return &resource.Def[scale]{GVK: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Plural: "scales", Namespaced: true,
		Virtual: true, Columns: columns}
}

// scaleEntry is the scale subresource as an entry.
func scaleEntry(r *Request, obj resource.Object) (*view.Entry, error) {
	sc, ok := admission.ScaleOf(r.Kind, obj)
	if !ok {
		return nil, NotFound(r)
	}
	missing, err := unscaled(r, obj)
	if err != nil {
		return nil, err
	}
	if missing != "" {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", missing))
	}
	rev, _ := parseRevision(obj.GetResourceVersion())
	if r.Kind.Info().Custom {
		return view.NewEntry(customScales, rev, sc), nil
	}
	return view.NewEntry(scales, rev, sc), nil
}

// unscaled returns the path of the wanted replicas of an object that does not say them. It fails when the paths of its
// scale lead to something else.
func unscaled(r *Request, obj resource.Object) (missing string, err error) {
	u, ok := r.Kind.(interface {
		Unscaled(obj resource.Object) (field string, err error)
	})
	if !ok {
		return "", nil
	}
	if missing, err = u.Unscaled(obj); err != nil {
		return "", PlainError(err.Error())
	}
	return missing, nil
}

// unset stands for wanted replicas that nobody has set.
const unset = math.MinInt32

// updateScale implements Update of the scale subresource.
func (s *Server) updateScale(ctx context.Context, r *Request, obj resource.Object) (*view.Entry, error) {
	sc, ok := obj.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", obj))
	}
	if err := checkNamespace(r, sc); err != nil {
		return nil, err
	}
	if err := named(r, sc); err != nil {
		return nil, err
	}
	return s.rescale(ctx, r, func(_ context.Context, cur *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		if sc.UID != "" && sc.UID != cur.UID { // a precondition, before any rule
			return nil, wrongUID(r, sc.UID, cur.UID)
		}
		return sc, nil
	})
}

// patchScale implements Patch of the scale subresource.
// Unlike Kubernetes, an applied scale of a custom resource may change something.
func (s *Server) patchScale(ctx context.Context, p *patching, c *change) (*view.Entry, error) {
	if c.owned {
		apply := c.next
		c.create = false
		c.next = func(ctx context.Context, cur *view.Entry) (resource.Object, error) {
			obj, err := apply(ctx, cur)
			if err == nil {
				err = checkScale(p.r, obj)
			}
			if sc := (&autoscalingv1.Scale{}); err == nil && yaml.Unmarshal(p.data, sc) == nil {
				if err = checkNamespace(p.r, sc); err != nil {
					return nil, err
				}
				if sc.ResourceVersion != "" {
					obj.SetResourceVersion(sc.ResourceVersion)
				}
				sc.Name, sc.Spec.Replicas = p.r.Name, 0 // all but its metadata is checked
				if err = s.rules.checkWritten(p.r, sc); err == nil {
					err = sameScale(p.r, sc, obj.GetUID())
				}
			}
			return obj, err
		}
		e, _, err := s.modify(ctx, p.r, c)
		if err != nil {
			return nil, err
		}
		return scaleEntry(p.r, e.Object)
	}
	return s.rescale(ctx, p.r, p.patchedScale)
}

func (p *patching) patchedScale(_ context.Context, sc *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	doc, err := codec.MarshalJSON(sc)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	next := &autoscalingv1.Scale{}
	if doc, err = p.transform(doc, next); err != nil {
		return nil, err
	}
	if err := p.typedScale(doc); err != nil {
		return nil, err
	}
	strict, err := codec.UnmarshalJSON(doc, next)
	if err != nil {
		if next = (&autoscalingv1.Scale{}); !p.wraps(doc, next) {
			return nil, p.unfit(doc, &autoscalingv1.Scale{}, err)
		}
	}
	if err := p.strict(doc, strict); err != nil {
		return nil, err
	}
	if err := apply.CheckName(next, p.r.Scope(), p.r.Name); err != nil {
		return nil, err
	}
	return next, nil
}

// sameScale checks the uid that a patch of a scale names, once its rules are kept.
func sameScale(r *Request, sc *autoscalingv1.Scale, have types.UID) error {
	if sc.UID != "" && sc.UID != have {
		return otherUID(scaleOf(r), r.Name, sc.UID, have)
	}
	return nil
}

// rescale changes an object through its scale.
func (s *Server) rescale(ctx context.Context, r *Request,
	next func(context.Context, *autoscalingv1.Scale) (*autoscalingv1.Scale, error)) (*view.Entry, error) {
	e, _, err := s.modify(ctx, r, &change{next: func(ctx context.Context, cur *view.Entry) (resource.Object, error) {
		sc, ok := admission.ScaleOf(r.Kind, cur.Object)
		if !ok {
			return nil, NotFound(r)
		}
		missing, err := unscaled(r, cur.Object)
		if err != nil {
			return nil, err
		}
		if missing != "" {
			sc.Spec.Replicas = unset
		}
		want, err := next(ctx, sc)
		if err != nil {
			return nil, err
		}
		if missing != "" && want.Spec.Replicas == unset {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", missing))
		}
		if err := s.rules.checkWritten(r, want); err != nil {
			return nil, err
		}
		if err := sameScale(r, want, cur.Object.GetUID()); err != nil {
			return nil, err
		}
		obj := resource.Clone(cur.Object)
		if want.ResourceVersion != "" {
			obj.SetResourceVersion(want.ResourceVersion)
		}
		r.Kind.Scaled().Set(obj, want.Spec.Replicas)
		return obj, nil
	}})
	if err != nil {
		return nil, err
	}
	return scaleEntry(r, e.Object)
}

// scaleOf is upstream's name for the scale of a kind in some errors.
func scaleOf(r *Request) schema.GroupResource {
	gr := r.Resource()
	gr.Resource += "/scale"
	return gr
}

func checkScale(r *Request, obj resource.Object) error {
	v, ok := resource.ScaleOf(r.Kind, obj)
	if !ok {
		return NotFound(r)
	}
	return checkReplicas(r, v.Replicas)
}

// checkWritten holds a scale to the rules of all objects, too, up to 1.36: whoever writes it sees nothing of its metadata again, but hears
// what is wrong with them.
func (s rules) checkWritten(r *Request, sc *autoscalingv1.Scale) error {
	if r.Kind.Info().Custom { // those have a check of their own
		return nil
	}
	if s.Kinds.Features().AtLeast(37) {
		return invalidScale(r, replicasErrors(sc.Spec.Replicas))
	}
	meta := sc.ObjectMeta
	meta.ManagedFields = nil // the object has its own
	errs := validation.ValidateObjectMeta(&meta, true, validation.NameIsDNSSubdomain, metadataPath)
	for _, e := range errs { // whatever the kind makes of its own metadata
		resource.MetaBefore37(e)
	}
	for i, f := range sc.Finalizers {
		if !qualifiedFinalizer(f) {
			errs = append(errs, unqualified(i, f))
		}
	}
	return invalidScale(r, append(errs, replicasErrors(sc.Spec.Replicas)...))
}

func checkReplicas(r *Request, n int32) error {
	if r.Kind.Info().Custom {
		return nil
	}
	return invalidScale(r, replicasErrors(n))
}

func replicasErrors(n int32) field.ErrorList {
	if n >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), n, "must be greater than or equal to 0")}
}

func invalidScale(r *Request, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(scales.GVK.GroupKind(), r.Name, errs)
}

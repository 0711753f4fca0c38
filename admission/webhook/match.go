package webhook

import (
	"context"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// exempt says that webhooks are not asked: about what configures admission, so that a webhook can't stop its own
// removal, and about the reviews by which servers find out who somebody is.
func exempt(r *admission.Request) bool {
	i := r.Kind.Info()
	switch i.GVK.Group {
	case "admissionregistration.k8s.io":
		return true
	case "authentication.k8s.io":
		return i.Virtual
	case "authorization.k8s.io":
		return true
	}
	return false
}

// A form is the kind and the resource that a rule asks for.
type form struct {
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
}

// scaleKind is what the subresource scale exchanges, whatever is scaled.
var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// spoken is the form in which the caller made the request.
func spoken(r *admission.Request) form {
	i := r.Kind.Info()
	f := form{kind: i.GVK}
	if slices.Contains(i.Also, r.GVK) {
		f.kind = r.GVK
	}
	f.resource = f.kind.GroupVersion().WithResource(i.Plural)
	sub, _ := i.Sub(r.Sub)
	switch {
	case r.Target != nil:
		f.kind = corev1.SchemeGroupVersion.WithKind(reflect.TypeOf(r.Target).Elem().Name())
	case called(r):
		if f.kind = r.Object.GetObjectKind().GroupVersionKind(); f.kind.Empty() {
			f.kind = sub.GVK
		}
	case !sub.GVK.Empty():
		f.kind = sub.GVK
	}
	return f
}

// called says that the object is the body of a call, not an object of the kind: an Eviction, a TokenRequest.
func called(r *admission.Request) bool {
	if r.Sub == "" || r.Sub == "scale" || r.Object == nil {
		return false
	}
	sub, ok := r.Kind.Info().Sub(r.Sub)
	return ok && !sub.GVK.Empty()
}

// equivalents are the forms in which the request could have been made as well.
func equivalents(r *admission.Request, own form) (list []form) {
	i := r.Kind.Info()
	for _, gvk := range i.Served() {
		f := form{gvk, gvk.GroupVersion().WithResource(i.Plural)}
		if sub, ok := i.Sub(r.Sub); ok && !sub.GVK.Empty() || r.Target != nil {
			f.kind = own.kind
		}
		if f.resource != own.resource {
			list = append(list, f)
		}
	}
	return list
}

// matches finds the form in which the webhook wants to be asked; nil: it does not.
func (h *hook) matches(r *admission.Request, own form) *form {
	for i := range h.Rules {
		if applies(&h.Rules[i], r, own.resource) {
			return &own
		}
	}
	if h.MatchPolicy == nil || *h.MatchPolicy != v1.Equivalent {
		return nil
	}
	others := equivalents(r, own)
	for i := range h.Rules {
		for _, f := range others {
			if applies(&h.Rules[i], r, f.resource) {
				return &f
			}
		}
	}
	return nil
}

// applies says that a rule is about the request, made for a resource.
func applies(rule *v1.RuleWithOperations, r *admission.Request, gvr schema.GroupVersionResource) bool {
	op := func(o v1.OperationType) bool { return o == v1.OperationAll || string(o) == string(r.Op) }
	return slices.ContainsFunc(rule.Operations, op) && has(rule.APIGroups, gvr.Group) && has(rule.APIVersions, gvr.Version) &&
		within(rule.Scope, r) && slices.ContainsFunc(rule.Resources, func(pattern string) bool {
		name, sub, _ := strings.Cut(pattern, "/")
		return (name == "*" || name == gvr.Resource) && (sub == "*" || sub == r.Sub)
	})
}

func has(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

// within compares scopes. Namespaces themselves are cluster-scoped.
func within(scope *v1.ScopeType, r *admission.Request) bool {
	if scope == nil || *scope == v1.AllScopes {
		return true
	}
	cluster := isNamespace(r) || r.Namespace == ""
	return (*scope == v1.ClusterScope) == cluster
}

func isNamespace(r *admission.Request) bool {
	return r.Kind.Info().GR() == core.Namespaces.Info().GR()
}

// selects compares the labels of the namespace and of the object, new or old, with what the webhook wants.
func (h *hook) selects(ctx context.Context, r *admission.Request) (bool, error) {
	if h.err != nil {
		return false, apierrors.NewInternalError(h.err)
	}
	if !h.objects.Empty() && !chosen(h.objects, r.Object) && !chosen(h.objects, r.Old) {
		return false, nil
	}
	if h.namespaces.Empty() || r.Namespace == "" && !isNamespace(r) {
		return true, nil
	}
	if isNamespace(r) && r.Sub == "" && r.Object != nil {
		return h.namespaces.Matches(labels.Set(r.Object.GetLabels())), nil
	}
	ns, err := namespaceOf(ctx, r)
	if err != nil {
		return false, err
	}
	return h.namespaces.Matches(labels.Set(ns.Labels)), nil
}

func chosen(sel labels.Selector, obj resource.Object) bool {
	return obj != nil && sel.Matches(labels.Set(obj.GetLabels()))
}

// namespaceOf reads the request's namespace, from the store when the view does not hold it yet.
func namespaceOf(ctx context.Context, r *admission.Request) (*corev1.Namespace, error) {
	if ns := resource.Get(r.Read, core.Namespaces, "", r.Namespace); ns != nil {
		return ns, nil
	}
	if r.Live != nil {
		o, err := r.Live(ctx, core.Namespaces, "", r.Namespace)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if ns, ok := o.(*corev1.Namespace); ok && err == nil {
			return ns, nil
		}
	}
	return nil, apierrors.NewNotFound(core.Namespaces.Info().GR(), r.Namespace)
}

package policy

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
)

// parameters is the kind that a policy takes its parameters from; nil for a policy without.
type parameters struct {
	kind resource.Kind
	gvk  schema.GroupVersionKind
}

// paramKind finds the kind of a rule's parameters.
func (p *Policies) paramKind(r *rule) (*parameters, error) {
	if r.kind == nil {
		return nil, nil
	}
	gv, err := schema.ParseGroupVersion(r.kind.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
	}
	gvk := gv.WithKind(r.kind.Kind)
	k, ok := p.Kinds.Kind(gvk)
	if !ok || k.Info().Virtual {
		return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
	}
	return &parameters{k, gvk}, nil
}

// none stands for an evaluation without parameters.
var none = []runtime.Object{nil}

// collect finds the parameters that a binding refers to. No parameters and no error mean that the binding does not
// apply to the request.
func (p *parameters) collect(ctx context.Context, r *admission.Request, ref *admissionregistrationv1.ParamRef) ([]runtime.Object, error) {
	if p == nil || ref == nil {
		return none, nil
	}
	ns, err := p.namespace(r, ref)
	if err != nil {
		return nil, err
	}
	var list []runtime.Object
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		list, err = p.named(ctx, r, ns, ref.Name)
	case ref.Selector != nil:
		list, err = p.selected(ctx, r, ns, ref.Selector)
	default:
		err = errors.New("one of name or selector must be provided")
	}
	if err == nil && len(list) == 0 && ref.ParameterNotFoundAction != nil &&
		*ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
		err = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return list, err
}

// namespace holds the parameters: the binding's, else the request's.
func (p *parameters) namespace(r *admission.Request, ref *admissionregistrationv1.ParamRef) (string, error) {
	switch {
	case !p.kind.Info().Namespaced && ref.Namespace != "":
		return "", errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !p.kind.Info().Namespaced:
		return "", nil
	case ref.Namespace != "":
		return ref.Namespace, nil
	case r.Namespace == "":
		return "", errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	return r.Namespace, nil
}

func (p *parameters) named(ctx context.Context, r *admission.Request, ns, name string) ([]runtime.Object, error) {
	obj := r.Read.Lookup(p.kind, ns, name)
	if obj == nil && r.Live != nil { // another server may have stored it just now
		var err error
		if obj, err = r.Live(ctx, p.kind, ns, name); err != nil {
			return nil, fmt.Errorf("read the params: %w", err)
		}
	}
	if obj == nil {
		return nil, nil
	}
	return p.spoken(ctx, nil, obj)
}

func (p *parameters) selected(ctx context.Context, r *admission.Request, ns string, by *metav1.LabelSelector) (list []runtime.Object,
	err error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil, err
	}
	for obj := range r.Read.Each(p.kind, ns) {
		if selector.Matches(labels.Set(obj.GetLabels())) {
			if list, err = p.spoken(ctx, list, obj); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// spoken adds an object in the version that the policy names.
func (p *parameters) spoken(ctx context.Context, list []runtime.Object, obj resource.Object) ([]runtime.Object, error) {
	out, err := p.kind.ConvertTo(ctx, obj, p.gvk)
	if err != nil {
		return nil, fmt.Errorf("convert the params: %w", err)
	}
	return append(list, out), nil
}

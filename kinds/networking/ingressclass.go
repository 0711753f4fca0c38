package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// longestController is the maximum length of the name of an ingress controller.
const longestController = 250

// IngressClasses declares the kind.
var IngressClasses = &resource.Def[*networkingv1.IngressClass]{
	GVK: gvk("IngressClass"), Plural: "ingressclasses", Generation: true,
	Quirks: resource.Quirks{Declared: []string{"Required spec.parameters.kind", "Required spec.parameters.name"}},
	Default: func(c *networkingv1.IngressClass) {
		if c.Spec.Parameters != nil {
			rule.Fill(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
		}
	},
	Validate: resource.Serving(validateClass),
	Columns: []resource.Column[*networkingv1.IngressClass]{
		resource.Name(func(c *networkingv1.IngressClass) any {
			if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
				return c.Name + " (default)"
			}
			return c.Name
		}),
		resource.Col("Controller", "string", func(c *networkingv1.IngressClass) any { return c.Spec.Controller }),
		resource.Col("Parameters", "string", func(c *networkingv1.IngressClass) any { return parametersText(c.Spec.Parameters) }),
		resource.Age[*networkingv1.IngressClass](),
	},
}

func parametersText(p *networkingv1.IngressClassParametersReference) string {
	if p == nil {
		return cell.None
	}
	text := p.Kind
	if p.APIGroup != nil {
		text += "." + *p.APIGroup
	}
	return text + "/" + p.Name
}

func validateClass(c, old *networkingv1.IngressClass) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	at := spec.Child("controller")
	if old != nil {
		errs = append(errs, rule.Frozen(c.Spec.Controller, old.Spec.Controller, at)...)
	}
	if len(c.Spec.Controller) > longestController {
		errs = append(errs, field.TooLong(at, "", longestController))
	}
	errs = append(errs, utilvalidation.IsDomainPrefixedPath(at, c.Spec.Controller)...)
	if c.Spec.Parameters != nil {
		errs = append(errs, parameters(c.Spec.Parameters, spec.Child("parameters"))...)
	}
	return errs
}

func parameters(p *networkingv1.IngressClassParametersReference, path *field.Path) (errs field.ErrorList) {
	if p.APIGroup != nil {
		errs = append(errs, rule.Format(*p.APIGroup, path.Child("apiGroup"), rule.Subdomain)...)
	}
	errs = append(errs, segment(p.Kind, path.Child("kind"))...)
	errs = append(errs, segment(p.Name, path.Child("name"))...)
	scope, ns := path.Child("scope"), path.Child("namespace")
	if p.Scope == nil {
		return append(errs, field.Required(scope, ""))
	}
	switch *p.Scope {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			return append(errs, field.Required(ns, "`parameters.scope` is set to 'Namespace'"))
		}
		errs = append(errs, rule.Format(*p.Namespace, ns, rule.Label)...)
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(ns, "`parameters.scope` is set to 'Cluster'"))
		}
	default:
		errs = append(errs, rule.Among(*p.Scope, scope,
			networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace)...)
	}
	return errs
}

package networking

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// classAnnotation named the class before there was a field for it.
const classAnnotation = "kubernetes.io/ingress.class"

// Ingresses declares the kind.
var Ingresses = &resource.Def[*networkingv1.Ingress]{
	GVK: gvk("Ingress"), Plural: "ingresses", Short: []string{"ing"}, Namespaced: true, Storage: "ingress",
	Generation: true, Status: true, Validate: resource.Serving(validateIngress),
	ValidateStatus: resource.Serving(validateIngressStatus),
	Warn: resource.Serving(func(i, old *networkingv1.Ingress) []string {
		if _, set := i.Annotations[classAnnotation]; set && old == nil && i.Spec.IngressClassName == nil {
			return []string{`annotation "` + classAnnotation + `" is deprecated, please use 'spec.ingressClassName' instead`}
		}
		return nil
	}),
	Columns: []resource.Column[*networkingv1.Ingress]{
		resource.Col("Class", "string", func(i *networkingv1.Ingress) any {
			if i.Spec.IngressClassName == nil {
				return cell.None
			}
			return *i.Spec.IngressClassName
		}),
		resource.Col("Hosts", "string", func(i *networkingv1.Ingress) any { return hosts(i.Spec.Rules) }),
		resource.Col("Address", "string", func(i *networkingv1.Ingress) any { return loadBalancers(i.Status.LoadBalancer.Ingress) }),
		resource.Col("Ports", "string", func(i *networkingv1.Ingress) any {
			if len(i.Spec.TLS) > 0 {
				return "80, 443"
			}
			return "80"
		}),
		resource.Age[*networkingv1.Ingress](),
	},
}

// hosts lists three hosts; what follows them is counted by rules, with host or without.
func hosts(rules []networkingv1.IngressRule) string {
	const most = 3
	var list []string
	for _, r := range rules {
		if len(list) == most {
			return strings.Join(list, ",") + " + " + decimal(len(rules)-most) + " more..."
		}
		if r.Host != "" {
			list = append(list, r.Host)
		}
	}
	return cell.Or(strings.Join(list, ","), "*")
}

// loadBalancers lists the addresses without repetition, sorted.
func loadBalancers(list []networkingv1.IngressLoadBalancerIngress) string {
	var out []string
	for _, i := range list {
		out = append(out, cell.Or(i.IP, i.Hostname))
	}
	slices.Sort(out)
	return strings.Join(slices.DeleteFunc(slices.Compact(out), func(s string) bool { return s == "" }), ",")
}

func validateIngress(i, old *networkingv1.Ingress) (errs field.ErrorList) {
	s, spec := &i.Spec, field.NewPath("spec")
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		errs = append(errs, field.Invalid(spec, s.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if s.DefaultBackend != nil {
		errs = append(errs, backend(s.DefaultBackend, spec.Child("defaultBackend"))...)
	}
	for n, r := range s.Rules {
		errs = append(errs, ingressRule(r, spec.Child("rules").Index(n))...)
	}
	for n, t := range s.TLS {
		errs = append(errs, ingressTLS(t, spec.Child("tls").Index(n))...)
	}
	if s.IngressClassName != nil {
		errs = append(errs, rule.Format(*s.IngressClassName, spec.Child("ingressClassName"), rule.Subdomain)...)
	}
	if class, set := i.Annotations[classAnnotation]; old == nil && set && s.IngressClassName != nil && class != *s.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), class,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

func ingressTLS(t networkingv1.IngressTLS, path *field.Path) (errs field.ErrorList) {
	for i, h := range t.Hosts {
		errs = append(errs, hostName(h, path.Child("hosts").Index(i))...)
	}
	if t.SecretName != "" {
		errs = append(errs, rule.Format(t.SecretName, path.Child("secretName"), rule.Subdomain)...)
	}
	return errs
}

func validateIngressStatus(i, old *networkingv1.Ingress) (errs field.ErrorList) {
	path := field.NewPath("status", "loadBalancer", "ingress")
	var before []string
	if old != nil {
		for _, in := range old.Status.LoadBalancer.Ingress {
			before = append(before, in.IP)
		}
	}
	for n, in := range i.Status.LoadBalancer.Ingress {
		errs = append(errs, address(in.IP, in.Hostname, before, path.Index(n))...)
	}
	return errs
}

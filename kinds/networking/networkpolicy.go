package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// NetworkPolicies declares the kind.
var NetworkPolicies = &resource.Def[*networkingv1.NetworkPolicy]{
	GVK: gvk("NetworkPolicy"), Plural: "networkpolicies", Short: []string{"netpol"}, Namespaced: true, Generation: true,
	Quirks: resource.Quirks{MetaUpdateOnly: true, EmptyCounts: true,
		Declared: []string{"Required spec.ingress[*].from[*].ipBlock.cidr", "Required spec.egress[*].to[*].ipBlock.cidr"}},
	Default: defaultPolicy, Validate: resource.Serving(validatePolicy), Warn: resource.Serving(warnPolicy),
	Columns: []resource.Column[*networkingv1.NetworkPolicy]{
		resource.Col("Pod-Selector", "string", func(p *networkingv1.NetworkPolicy) any { return cell.Selector(&p.Spec.PodSelector) }),
		resource.Age[*networkingv1.NetworkPolicy](),
	},
}

func defaultPolicy(p *networkingv1.NetworkPolicy) {
	s := &p.Spec
	for i := range s.Ingress {
		defaultPorts(s.Ingress[i].Ports)
	}
	for i := range s.Egress {
		defaultPorts(s.Egress[i].Ports)
	}
	if len(s.PolicyTypes) == 0 {
		s.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(s.Egress) > 0 {
			s.PolicyTypes = append(s.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

func defaultPorts(list []networkingv1.NetworkPolicyPort) {
	for i := range list {
		rule.Fill(&list[i].Protocol, corev1.ProtocolTCP)
	}
}

// warnPolicy names ranges that other programs may read in another way.
func warnPolicy(p, _ *networkingv1.NetworkPolicy) (list []string) {
	look := func(peers []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			at := path.Index(i).Child("ipBlock")
			list = append(list, validation.GetWarningsForCIDR(at.Child("cidr"), peer.IPBlock.CIDR)...)
			for k, e := range peer.IPBlock.Except {
				list = append(list, validation.GetWarningsForCIDR(at.Child("except").Index(k), e)...)
			}
		}
	}
	for i, r := range p.Spec.Ingress {
		look(r.From, field.NewPath("spec", "ingress").Index(i).Child("from"))
	}
	for i, r := range p.Spec.Egress {
		look(r.To, field.NewPath("spec", "egress").Index(i).Child("to"))
	}
	return list
}

func validatePolicy(p, old *networkingv1.NetworkPolicy) (errs field.ErrorList) {
	s, spec := &p.Spec, field.NewPath("spec")
	l := lenience(old)
	errs = append(errs, metavalidation.ValidateLabelSelector(&s.PodSelector, l.selectors, spec.Child("podSelector"))...)
	for i, r := range s.Ingress {
		at := spec.Child("ingress").Index(i)
		errs = append(errs, policyPorts(r.Ports, at.Child("ports"))...)
		errs = append(errs, peers(r.From, l, at.Child("from"))...)
	}
	for i, r := range s.Egress {
		at := spec.Child("egress").Index(i)
		errs = append(errs, policyPorts(r.Ports, at.Child("ports"))...)
		errs = append(errs, peers(r.To, l, at.Child("to"))...)
	}
	types := spec.Child("policyTypes")
	if len(s.PolicyTypes) > 2 {
		return append(errs, field.Invalid(types, s.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range s.PolicyTypes {
		errs = append(errs, rule.Listed(t, types.Index(i), networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)...)
	}
	return errs
}

// leniency lists what an update may keep though a new object could not have it.
type leniency struct {
	selectors metavalidation.LabelSelectorValidationOptions
	ranges    []string
}

// lenience lets bad values in selectors pass if the pod selector had some, and ranges that were there before.
func lenience(old *networkingv1.NetworkPolicy) (l leniency) {
	if old == nil {
		return l
	}
	l.selectors.AllowInvalidLabelValueInSelector =
		len(metavalidation.ValidateLabelSelector(&old.Spec.PodSelector, l.selectors, nil)) > 0
	keep := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, p := range peers {
			if p.IPBlock != nil {
				l.ranges = append(append(l.ranges, p.IPBlock.CIDR), p.IPBlock.Except...)
			}
		}
	}
	for _, r := range old.Spec.Ingress {
		keep(r.From)
	}
	for _, r := range old.Spec.Egress {
		keep(r.To)
	}
	return l
}

func policyPorts(list []networkingv1.NetworkPolicyPort, path *field.Path) (errs field.ErrorList) {
	for i, p := range list {
		errs = append(errs, policyPort(p, path.Index(i))...)
	}
	return errs
}

func policyPort(p networkingv1.NetworkPolicyPort, path *field.Path) (errs field.ErrorList) {
	if p.Protocol != nil {
		errs = rule.Listed(*p.Protocol, path.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	}
	port, end := path.Child("port"), path.Child("endPort")
	switch {
	case p.Port == nil:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified"))
		}
	case p.Port.Type == intstr.Int:
		errs = append(errs, rule.Says(validation.IsValidPortNum(int(p.Port.IntVal)), p.Port.IntVal, port)...)
		if p.EndPort == nil {
			break
		}
		if *p.EndPort < p.Port.IntVal {
			errs = append(errs, field.Invalid(end, *p.EndPort, "must be greater than or equal to `port`"))
		}
		errs = append(errs, rule.Says(validation.IsValidPortNum(int(*p.EndPort)), *p.EndPort, end)...)
	default:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric"))
		}
		errs = append(errs, rule.Says(validation.IsValidPortName(p.Port.StrVal), p.Port.StrVal, port)...)
	}
	return errs
}

func peers(list []networkingv1.NetworkPolicyPeer, l leniency, path *field.Path) (errs field.ErrorList) {
	for i, p := range list {
		at, n := path.Index(i), 0
		if p.PodSelector != nil {
			n++
			errs = append(errs, metavalidation.ValidateLabelSelector(p.PodSelector, l.selectors, at.Child("podSelector"))...)
		}
		if p.NamespaceSelector != nil {
			n++
			errs = append(errs, metavalidation.ValidateLabelSelector(p.NamespaceSelector, l.selectors, at.Child("namespaceSelector"))...)
		}
		if p.IPBlock != nil {
			n++
			errs = append(errs, block(p.IPBlock, l.ranges, at.Child("ipBlock"))...)
		}
		switch {
		case n == 0:
			errs = append(errs, field.Required(at, "must specify a peer"))
		case n > 1 && p.IPBlock != nil:
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

// block checks that the exceptions lie within the block and are smaller than it.
func block(b *networkingv1.IPBlock, before []string, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := validation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, before)
	_, outer, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	ones, _ := outer.Mask.Size()
	for i, e := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, e, true, before)...)
		_, inner, err := netutils.ParseCIDRSloppy(e)
		if err != nil {
			continue
		}
		if n, _ := inner.Mask.Size(); n <= ones || !outer.Contains(inner.IP) {
			errs = append(errs, field.Invalid(at, e, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

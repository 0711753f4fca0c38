package services

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var specPath = field.NewPath("spec")

// families decides on the address families of a service, from what was asked and what the cluster has.
func (t *taking) families(before *corev1.Service) field.ErrorList {
	spec := &t.svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName || t.unchangedDual(before) {
		return nil
	}
	open := headless(t.svc) && len(spec.Selector) == 0 // its addresses are written by hand
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = policyOf(before, open)
	}
	if errs := append(t.shrunk(before), t.inferred()...); len(errs) > 0 {
		return errs
	}
	if open {
		t.anyFamilies()
		return nil
	}
	if errs := t.supported(); len(errs) > 0 {
		return errs
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{t.s.ranges[0].family()}
	}
	if len(spec.IPFamilies) == 1 && !t.single() && len(t.s.ranges) == 2 {
		spec.IPFamilies = append(spec.IPFamilies, other(spec.IPFamilies[0]))
	}
	return nil
}

// policyOf is the policy of a service that names none: what it was; both families where addresses are written by hand; else one.
func policyOf(before *corev1.Service, open bool) *corev1.IPFamilyPolicy {
	policy := corev1.IPFamilyPolicySingleStack
	switch {
	case before != nil && before.Spec.IPFamilyPolicy != nil:
		policy = *before.Spec.IPFamilyPolicy
	case open:
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	return &policy
}

func (t *taking) single() bool { return *t.svc.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack }

// shrunk lets a service go back to one family. The policy must say so; then lists that were left as they are lose their second entry.
func (t *taking) shrunk(before *corev1.Service) (errs field.ErrorList) {
	is, why := &t.svc.Spec, []string(nil)
	switch {
	case before == nil:
	case t.single():
		if slices.Equal(is.ClusterIPs, before.Spec.ClusterIPs) && len(is.ClusterIPs) > 1 {
			is.ClusterIPs = is.ClusterIPs[:1:1]
		}
		if slices.Equal(is.IPFamilies, before.Spec.IPFamilies) && len(is.IPFamilies) > 1 {
			is.IPFamilies = is.IPFamilies[:1:1]
		}
	default:
		if n := len(is.ClusterIPs); n > 0 && n < len(before.Spec.ClusterIPs) {
			why = append(why, "must be 'SingleStack' to release the secondary cluster IP")
		}
		if n := len(is.IPFamilies); n > 0 && n < len(before.Spec.IPFamilies) {
			why = append(why, "must be 'SingleStack' to release the secondary IP family")
		}
	}
	if t.single() && len(is.ClusterIPs) == 2 {
		why = append(why, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
	}
	if t.single() && len(is.IPFamilies) == 2 {
		why = append(why, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
	}
	for _, text := range why {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), *is.IPFamilyPolicy, text))
	}
	return errs
}

// inferred adds the families of addresses that were asked for.
func (t *taking) inferred() (errs field.ErrorList) {
	spec := &t.svc.Spec
	for i, ip := range spec.ClusterIPs {
		addr, err := netip.ParseAddr(ip)
		if err != nil || i < len(spec.IPFamilies) {
			continue
		}
		if f := familyOf(addr); len(t.s.rangesOf(f)) > 0 {
			spec.IPFamilies = append(spec.IPFamilies, f)
		} else {
			at := specPath.Child("clusterIPs").Index(i)
			errs = append(errs, field.Invalid(at, spec.ClusterIPs, string(f)+" is not configured on this cluster"))
		}
	}
	return errs
}

// unchangedDual says that a service that would like two families keeps what it got, though the cluster may
// have become able to give it more.
func (t *taking) unchangedDual(before *corev1.Service) bool {
	if before == nil {
		return false
	}
	is, was := &t.svc.Spec, &before.Spec
	prefers := func(s *corev1.ServiceSpec) bool {
		return s.IPFamilyPolicy != nil && *s.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack
	}
	return is.Type != corev1.ServiceTypeExternalName && was.Type != corev1.ServiceTypeExternalName && prefers(is) && prefers(was) &&
		len(is.ClusterIPs) > 0 && slices.Equal(is.ClusterIPs, was.ClusterIPs) && slices.Equal(is.IPFamilies, was.IPFamilies)
}

// anyFamilies fills in the families of a headless service without selector: its addresses are written by
// hand, so it may have any, whatever the cluster has.
func (t *taking) anyFamilies() {
	spec := &t.svc.Spec
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{t.s.ranges[0].family()}
	}
	if len(spec.IPFamilies) == 1 && !t.single() {
		spec.IPFamilies = append(spec.IPFamilies, other(spec.IPFamilies[0]))
	}
}

// supported says whether the cluster has what is asked for.
func (t *taking) supported() (errs field.ErrorList) {
	spec := &t.svc.Spec
	if p := *spec.IPFamilyPolicy; p == corev1.IPFamilyPolicyRequireDualStack && len(t.s.ranges) < 2 {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), p, "this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if len(t.s.rangesOf(f)) == 0 {
			errs = append(errs, field.Invalid(specPath.Child("ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	return errs
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func other(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// rangesOf returns where addresses of the family come from: the server's own range, then those of ServiceCIDRs.
func (s *Allocator) rangesOf(f corev1.IPFamily) (list []ipRange) {
	for _, g := range s.ranges {
		if g.family() == f {
			list = append(list, g)
		}
	}
	k, ok := s.core.Kinds.GR(schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"})
	if !ok {
		return list
	}
	for obj := range s.core.View.Snapshot().Each(k, "") {
		c, ok := obj.(*networkingv1.ServiceCIDR)
		if !ok || c.DeletionTimestamp != nil {
			continue
		}
		for _, text := range c.Spec.CIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil || familyOf(p.Addr()) != f || slices.Contains(list, ipRange{p.Masked()}) {
				continue
			}
			list = append(list, ipRange{p.Masked()})
		}
	}
	return list
}

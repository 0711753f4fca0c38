package server

import (
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var specPath = field.NewPath("spec")

// families decides on the address families of a service, from what was asked and what the cluster has.
func (t *taking) families(before *core.Service) field.ErrorList {
	spec := &t.svc.Spec
	if spec.Type == core.ServiceTypeExternalName || t.unchangedDual(before) {
		return nil
	}
	for i, ip := range spec.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err == nil && i >= len(spec.IPFamilies) {
			spec.IPFamilies = append(spec.IPFamilies, familyOf(addr))
		}
	}
	if headless(t.svc) && len(spec.Selector) == 0 {
		t.anyFamilies()
		return nil
	}
	if errs := t.supported(); len(errs) > 0 {
		return errs
	}
	if spec.IPFamilyPolicy == nil {
		policy := core.IPFamilyPolicySingleStack
		if len(spec.IPFamilies) == 2 {
			policy = core.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []core.IPFamily{t.s.alloc.ranges[0].family()}
	}
	if len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != core.IPFamilyPolicySingleStack && len(t.s.alloc.ranges) == 2 {
		spec.IPFamilies = append(spec.IPFamilies, other(spec.IPFamilies[0]))
	}
	return nil
}

// unchangedDual says that a service that would like two families keeps what it got, though the cluster may
// have become able to give it more.
func (t *taking) unchangedDual(before *core.Service) bool {
	if before == nil {
		return false
	}
	is, was := &t.svc.Spec, &before.Spec
	prefers := func(s *core.ServiceSpec) bool {
		return s.IPFamilyPolicy != nil && *s.IPFamilyPolicy == core.IPFamilyPolicyPreferDualStack
	}
	return is.Type != core.ServiceTypeExternalName && was.Type != core.ServiceTypeExternalName && prefers(is) && prefers(was) &&
		len(is.ClusterIPs) > 0 && slices.Equal(is.ClusterIPs, was.ClusterIPs) && slices.Equal(is.IPFamilies, was.IPFamilies)
}

// anyFamilies fills in the families of a headless service without selector: its addresses are written by
// hand, so it may have any, whatever the cluster has.
func (t *taking) anyFamilies() {
	spec := &t.svc.Spec
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []core.IPFamily{t.s.alloc.ranges[0].family()}
	}
	if len(spec.IPFamilies) == 1 && (spec.IPFamilyPolicy == nil || *spec.IPFamilyPolicy != core.IPFamilyPolicySingleStack) {
		spec.IPFamilies = append(spec.IPFamilies, other(spec.IPFamilies[0]))
	}
	if spec.IPFamilyPolicy == nil {
		policy := core.IPFamilyPolicyRequireDualStack
		spec.IPFamilyPolicy = &policy
	}
}

func (t *taking) supported() (errs field.ErrorList) {
	spec := &t.svc.Spec
	if p := spec.IPFamilyPolicy; p != nil && *p == core.IPFamilyPolicyRequireDualStack && len(t.s.alloc.ranges) < 2 {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), *p, "this cluster is not configured for dual-stack services"))
	}
	if p := spec.IPFamilyPolicy; (p == nil || *p == core.IPFamilyPolicySingleStack) && (len(spec.IPFamilies) > 1 || len(spec.ClusterIPs) > 1) {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), p,
			"must be RequireDualStack or PreferDualStack when multiple families are specified"))
	}
	for i, f := range spec.IPFamilies {
		if len(t.s.rangesOf(f)) == 0 {
			errs = append(errs, field.Invalid(specPath.Child("ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	return errs
}

func familyOf(a netip.Addr) core.IPFamily {
	if a.Is4() {
		return core.IPv4Protocol
	}
	return core.IPv6Protocol
}

func other(f core.IPFamily) core.IPFamily {
	if f == core.IPv4Protocol {
		return core.IPv6Protocol
	}
	return core.IPv4Protocol
}

// rangesOf returns where addresses of the family come from: the server's own range, then those of ServiceCIDRs.
func (s *Server) rangesOf(f core.IPFamily) (list []ipRange) {
	for _, g := range s.alloc.ranges {
		if g.family() == f {
			list = append(list, g)
		}
	}
	k, ok := s.Kinds.GR(schema.GroupResource{Group: networking.GroupName, Resource: "servicecidrs"})
	if !ok {
		return list
	}
	for obj := range s.View.Snapshot().Each(k, "") {
		c, ok := obj.(*networking.ServiceCIDR)
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

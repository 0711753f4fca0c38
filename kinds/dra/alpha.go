package dra

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kloop-dev/kloop/resource"
)

// dropAlpha removes fields whose features are off by default upstream too, unless the stored object has some:
// then it came from a cluster that had them on.
func dropAlpha[T resource.Object](obj, old T, isNew bool, drop func(T)) {
	if !isNew {
		c := resource.Clone(old)
		if drop(c); !resource.Same(c, old) {
			return
		}
	}
	drop(obj)
}

func dropDerived(s *resourcev1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = nil
		}
		for k := range r.FirstAvailable {
			r.FirstAvailable[k].DerivedAttributes = nil
		}
	}
}

func dropFromClaimStatus(c *resourcev1.ResourceClaim) {
	if a := c.Status.Allocation; a != nil {
		for i := range a.Devices.Results {
			a.Devices.Results[i].SkipNodeOperations = nil
		}
	}
}

func dropFromSlice(s *resourcev1.ResourceSlice) {
	s.Spec.PartitionTypeAttribute, s.Spec.SkipNodeOperations = nil, nil
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		d.NodeAllocatableResources = nil
		for k := range d.ConsumesCounters {
			d.ConsumesCounters[k].CompatibilityGroups = nil
		}
		for name, a := range d.Attributes {
			a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
			d.Attributes[name] = a
		}
	}
}

package dra

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kloop-dev/kloop/resource"
)

// Rules are the taints that administrators put on devices, beside those that the devices' drivers report.
func Rules(read resource.Reader) []*resourcev1.DeviceTaintRule {
	return resource.List(read, DeviceTaintRules, "")
}

// Tainted returns the slice with the rules' taints on its devices: the slice itself when there are none.
func Tainted(s *resourcev1.ResourceSlice, rules []*resourcev1.DeviceTaintRule) *resourcev1.ResourceSlice {
	var out *resourcev1.ResourceSlice
	for i := range s.Spec.Devices {
		for _, r := range rules {
			if !Covers(r, s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name) {
				continue
			}
			if out == nil {
				out = s.DeepCopy()
			}
			d := &out.Spec.Devices[i]
			d.Taints = append(d.Taints, r.Spec.Taint)
		}
	}
	if out == nil {
		return s
	}
	return out
}

// Covers says whether the rule is about the device.
func Covers(r *resourcev1.DeviceTaintRule, driver, pool, device string) bool {
	s := r.Spec.DeviceSelector
	if s == nil || r.DeletionTimestamp != nil {
		return false
	}
	is := func(want *string, have string) bool { return want == nil || *want == have }
	return is(s.Driver, driver) && is(s.Pool, pool) && is(s.Device, device)
}

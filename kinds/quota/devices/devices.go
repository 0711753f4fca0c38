// Package devices counts devices (dynamic resource allocation, DRA) for quotas.
package devices

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds/quota"
	kloop "github.com/kloop-dev/kloop/resource"
)

// all is the number that "all" may come to.
const all = resourcev1.AllocationResultsMaxSize

// Of counts the devices that a ResourceClaim asks for, by their classes.
func Of(o kloop.Object) corev1.ResourceList {
	c, ok := o.(*resourcev1.ResourceClaim)
	if !ok {
		return nil
	}
	use := corev1.ResourceList{}
	add := func(class string, n int64) {
		name := corev1.ResourceName(class + quota.DeviceSuffix)
		q := use[name]
		q.Add(*resource.NewQuantity(n, resource.DecimalSI))
		use[name] = q
	}
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly != nil {
			add(r.Exactly.DeviceClassName, number(r.Exactly.AllocationMode, r.Exactly.Count))
		}
		most := map[string]int64{} // one of the alternatives will be taken: the most of each class
		for _, s := range r.FirstAvailable {
			most[s.DeviceClassName] = max(most[s.DeviceClassName], number(s.AllocationMode, s.Count))
		}
		for class, n := range most {
			add(class, n)
		}
	}
	return use
}

func number(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	if mode == resourcev1.DeviceAllocationModeAll {
		return all
	}
	return count
}

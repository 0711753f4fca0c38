// Package quota says what objects count against the ResourceQuotas of their namespace: the admission plugin
// charges by it, the loop that counts again adds up by it.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/core"
	kloop "github.com/kloop-dev/kloop/resource"
)

// A Counter counts what an object uses, as devices.Of; nil for one that is not for it.
type Counter func(o kloop.Object) corev1.ResourceList

// Usage returns all that the object counts, whether or not a quota asks for it. now decides whether a pod that
// is being deleted still counts. What it does not know by type, more may.
func Usage(gr schema.GroupResource, o kloop.Object, now time.Time, more ...Counter) corev1.ResourceList {
	use := corev1.ResourceList{countOf(gr): one()}
	switch x := o.(type) {
	case *corev1.Pod:
		addPod(use, x, now)
	case *corev1.Service:
		addService(use, x)
	case *corev1.PersistentVolumeClaim:
		addClaim(use, x)
	default:
		for _, count := range more {
			Add(use, count(o))
		}
		if gr.Group == "" && slices.Contains(plainCounts, gr.Resource) {
			use[corev1.ResourceName(gr.Resource)] = one()
		}
	}
	return use
}

// plainCounts are the core resources that may be counted by their bare name.
var plainCounts = []string{"configmaps", "secrets", "replicationcontrollers", "resourcequotas"}

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

// countOf is the name of the generic count: count/deployments.apps, count/pods.
func countOf(gr schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName("count/" + gr.String())
}

// Counts tells whether objects of the resource can count against the named quota.
func Counts(gr schema.GroupResource, name corev1.ResourceName) bool {
	if name == countOf(gr) {
		return true
	}
	text := string(name)
	switch gr {
	case schema.GroupResource{Resource: "pods"}:
		return podResource(text)
	case schema.GroupResource{Resource: "services"}:
		return name == corev1.ResourceServices || name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage || strings.Contains(text,
			storageSuffix)
	case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
		return strings.HasSuffix(text, DeviceSuffix)
	}
	return gr.Group == "" && slices.Contains(plainCounts, gr.Resource) && text == gr.Resource
}

// Relevant returns those names of the list that the resource can count against, sorted.
func Relevant(gr schema.GroupResource, list corev1.ResourceList) (names []corev1.ResourceName) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if Counts(gr, name) {
			names = append(names, name)
		}
	}
	return names
}

// Applies tells whether the quota limits the object: it has a limit that the resource counts against, and the
// object is in all of its scopes. hard is the status or the spec of the quota, as the caller trusts.
func Applies(q *corev1.ResourceQuota, hard corev1.ResourceList, gr schema.GroupResource, o kloop.Object) bool {
	return len(Relevant(gr, hard)) > 0 && inScopes(&q.Spec, o)
}

func addService(use corev1.ResourceList, s *corev1.Service) {
	use[corev1.ResourceServices] = one()
	ports := int64(0)
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		use[corev1.ResourceServicesLoadBalancers] = one()
		every := s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts
		for _, p := range s.Spec.Ports {
			if every || p.NodePort != 0 {
				ports++
			}
		}
	}
	use[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
}

const storageSuffix = ".storageclass.storage.k8s.io/"

func addClaim(use corev1.ResourceList, c *corev1.PersistentVolumeClaim) {
	class := core.ClaimClass(c)
	add := func(name corev1.ResourceName, q resource.Quantity) {
		use[name] = q
		if class != "" {
			use[corev1.ResourceName(class+storageSuffix)+name] = q
		}
	}
	add(corev1.ResourcePersistentVolumeClaims, one())
	size, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	if got, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && got.Cmp(size) > 0 {
		size = got
	}
	size = size.DeepCopy()
	size.RoundUp(0) // whole bytes, as quotas are written
	add(corev1.ResourceRequestsStorage, size)
}

// DeviceSuffix ends the names by which devices of a class are counted.
const DeviceSuffix = ".deviceclass.resource.k8s.io/devices"

// Text renders a list as error messages show it: cpu=1,pods=2.
func Text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
	}
	return strings.Join(parts, ",")
}

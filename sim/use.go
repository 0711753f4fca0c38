package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/metrics/usage"
	"github.com/kloop-dev/kloop/resource"
)

// What a simulated pod uses, shared evenly by its containers. A pod that says neither is not measured; one that says
// only one uses nothing of the other.
const (
	CPU    = "sim.kloop.dev/cpu"    // a quantity: 250m
	Memory = "sim.kloop.dev/memory" // a quantity: 64Mi
)

// Use returns the resource use that a simulated node's pods declare.
func Use(read resource.Reader, node string, now time.Time) *usage.Summary {
	s := &usage.Summary{At: now, Containers: map[usage.Container]usage.Count{}}
	var cpu, memory uint64
	for _, p := range resource.Where(read, kinds.Pods, "spec.nodeName", node) {
		if p.Annotations[CPU] == "" && p.Annotations[Memory] == "" || p.Status.Phase != corev1.PodRunning {
			continue
		}
		n := uint64(len(p.Spec.Containers))
		rate, set := amount(p.Annotations[CPU], apiresource.Nano)/n, amount(p.Annotations[Memory], 0)/n
		for _, c := range p.Spec.Containers {
			s.Containers[usage.Container{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Name: c.Name}] = usage.Count{Rate: &rate,
				Memory: &set}
		}
		cpu, memory = cpu+rate*n, memory+set*n
	}
	s.Node = usage.Count{Rate: &cpu, Memory: &memory}
	return s
}

// amount is a quantity in units of a scale; 0: none that makes sense.
func amount(text string, scale apiresource.Scale) uint64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return uint64(max(0, q.ScaledValue(scale)))
}

package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The sums for pods that are nothing but their containers are those that the library makes for pods that have an overhead, of nothing.
func TestSums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	amounts := []string{"0", "1m", "100u", "250m", "1", "1.5", "100Mi", "1e3", "0.1"}
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		"example.com/gpu", "hugepages-2Mi"}
	for range 300 {
		p := &corev1.Pod{}
		for range random.IntN(4) {
			c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
			for _, name := range names {
				if random.IntN(2) == 0 {
					c.Resources.Requests[name] = resource.MustParse(amounts[random.IntN(len(amounts))])
				}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		n := newResourceIndex()
		for _, name := range names {
			n.of(name)
		}
		total, fair := n.requests(p)
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: {}}
		wantTotal, wantFair := n.requests(p)
		if !slices.Equal(total, wantTotal) || !slices.Equal(fair[:resStorage], wantFair[:resStorage]) {
			t.Fatalf("%v: %v and %v, the library has %v and %v", p.Spec.Containers, total, fair, wantTotal, wantFair)
		}
	}
}

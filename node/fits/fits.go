// Package fits says whether a pod's resources can be had on its node: the resource part of a node's admission, pure, for agents and for
// the simulation of them.
package fits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// Why says why a pod's resources can't be had on its node, beside those that already run, as the kubelet says it; "" for one that fits,
// and for one that has been let in before; let tells of which that is true.
func Why(pod *corev1.Pod, node []*corev1.Pod, allocatable corev1.ResourceList, let func(*corev1.Pod) bool) (reason, message string) {
	if let(pod) {
		return "", ""
	}
	used, count := corev1.ResourceList{}, int64(0)
	for _, p := range node {
		over := core.Terminal(p)
		if p.UID == pod.UID || over || !let(p) {
			continue
		}
		count++
		for name, q := range podresource.PodRequests(p, podresource.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	used[corev1.ResourcePods] = *apiresource.NewQuantity(count, apiresource.DecimalSI)
	want := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	want[corev1.ResourcePods] = apiresource.MustParse("1")
	for _, name := range slices.Sorted(maps.Keys(want)) {
		ask, have := want[name], used[name]
		all, known := allocatable[name]
		if !known && elsewhere(name) {
			continue
		}
		sum := have.DeepCopy()
		if sum.Add(ask); ask.IsZero() || sum.Cmp(all) <= 0 {
			continue
		}
		return "OutOf" + string(name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, amount(name, ask), amount(name, have), amount(name, all))
	}
	return "", ""
}

// elsewhere says whether a resource that the node does not have can be had all the same: it is one of the cluster's, or
// devices that a claim stands for.
func elsewhere(name corev1.ResourceName) bool {
	return podspec.IsExtendedResource(name) || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}

// amount is a quantity as the messages of rejections count it: CPUs in thousandths.
func amount(name corev1.ResourceName, q apiresource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

const (
	requestsPrefix  = "requests."
	limitsPrefix    = "limits."
	hugePagesPrefix = "hugepages-"
)

// computed are the resources that are counted under three names: cpu, requests.cpu and limits.cpu.
var computed = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

func podResource(name string) bool {
	if name == string(corev1.ResourcePods) || strings.HasPrefix(name, hugePagesPrefix) {
		return true
	}
	for _, r := range computed {
		if base := string(r); name == base || name == requestsPrefix+base || name == limitsPrefix+base {
			return true
		}
	}
	rest, ok := strings.CutPrefix(name, requestsPrefix)
	return ok && (strings.HasPrefix(rest, hugePagesPrefix) || extended(rest))
}

// extended tells whether the name is that of a resource that Kubernetes itself knows nothing of.
func extended(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") && !strings.HasPrefix(name, requestsPrefix)
}

// addPod counts a pod. One that has ended counts as an object and for nothing else.
func addPod(use corev1.ResourceList, p *corev1.Pod, now time.Time) {
	if ended(p, now) {
		return
	}
	opts := podresource.PodResourcesOptions{UseStatusResources: true}
	maps.Copy(use, compute(podresource.PodRequests(p, opts), podresource.PodLimits(p, opts)))
	use[corev1.ResourcePods] = one()
}

func ended(p *corev1.Pod, now time.Time) bool {
	if core.Terminal(p) {
		return true
	}
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil &&
		now.After(p.DeletionTimestamp.Add(resource.Seconds(*p.DeletionGracePeriodSeconds)))
}

// compute names requests and limits as quotas do.
func compute(requests, limits corev1.ResourceList) corev1.ResourceList {
	use := corev1.ResourceList{}
	for name, q := range requests {
		switch {
		case slices.Contains(computed, name) || strings.HasPrefix(string(name), hugePagesPrefix):
			use[name], use[requestsPrefix+name] = q, q
		case extended(string(name)):
			use[requestsPrefix+name] = q
		}
	}
	for name, q := range limits {
		if slices.Contains(computed, name) {
			use[limitsPrefix+name] = q
		}
	}
	return use
}

// PodRequests returns what a pod asks for in all.
func PodRequests(spec *corev1.PodSpec) corev1.ResourceList {
	return podresource.PodRequests(&corev1.Pod{Spec: *spec}, podresource.PodResourcesOptions{})
}

// PodLimits returns what a pod may use in all.
func PodLimits(spec *corev1.PodSpec) corev1.ResourceList {
	return podresource.PodLimits(&corev1.Pod{Spec: *spec}, podresource.PodResourcesOptions{})
}

// demanded are the quotas that every container of a pod must declare something for.
var demanded = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU,
	corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory}

// Undeclared tells which of the limited resources the pod's containers do not declare; nil if none.
func Undeclared(p *corev1.Pod, limited []corev1.ResourceName) error {
	if podresource.IsPodLevelResourcesSet(p) { // containers need not say what the pod says (KEP-2837)
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		declared := compute(c.Resources.Requests, c.Resources.Limits)
		for _, name := range limited {
			if _, ok := declared[name]; !ok && slices.Contains(demanded, name) {
				missing[name] = append(missing[name], c.Name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		names := slices.Compact(slices.Sorted(slices.Values(missing[name])))
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(names, ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}

package pressure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// A Use counts what a pod uses now.
type Use struct {
	Pod *corev1.Pod
	// Containers holds the use of each container: memory, ephemeral-storage in bytes, inodes, pids.
	Containers map[string]map[corev1.ResourceName]int64
	// Volumes holds the use of the pod's own volumes: ephemeral-storage and inodes.
	Volumes map[corev1.ResourceName]int64
}

func (u Use) of(r corev1.ResourceName) (n int64) {
	for _, c := range u.Containers {
		n += c[r]
	}
	return n + u.Volumes[r]
}

// request sums what the containers asked for of a resource; inodes and pids nobody can ask for.
func (u Use) request(r corev1.ResourceName) (n int64) {
	for i := range u.Pod.Spec.Containers {
		n += amount(u.Pod.Spec.Containers[i].Resources.Requests, r)
	}
	for i := range u.Pod.Spec.InitContainers {
		if c := &u.Pod.Spec.InitContainers[i]; podspec.Sidecar(c) {
			n += amount(c.Resources.Requests, r)
		}
	}
	return n
}

func amount(list corev1.ResourceList, r corev1.ResourceName) int64 {
	q := list[r]
	return q.Value()
}

// Rank orders pods by who goes first when there is too little of a resource: a pod that uses more than it asked for, then the less
// important, then one that exceeds its request by more.
func Rank(starved corev1.ResourceName, pods []Use) {
	over := func(u Use) int64 { return u.of(starved) - u.request(starved) }
	coldsort.StableFunc(pods, func(a, b Use) int {
		exceeds := 0
		if starved != "pids" { // nobody asks for process numbers, so nobody exceeds
			exceeds = compareBool(over(b) > 0, over(a) > 0)
		}
		return cmp.Or(exceeds, cmp.Compare(corev1helpers.PodPriority(a.Pod), corev1helpers.PodPriority(b.Pod)), cmp.Compare(over(b), over(a)))
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Text is the message of an eviction.
func Text(t Threshold, r Reading, victim Use) string {
	starved := t.Signal.Starved()
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. ", starved)
	limit := resource.NewQuantity(t.Of(r.Capacity), resource.BinarySI)
	left := resource.NewQuantity(max(r.Available, 0), resource.BinarySI)
	fmt.Fprintf(&b, "Threshold quantity: %s, available: %s. ", limit, kilos(left))
	if starved != corev1.ResourceMemory && starved != corev1.ResourceEphemeralStorage {
		return b.String()
	}
	for _, c := range victim.Pod.Spec.Containers {
		used, asked := victim.Containers[c.Name][starved], amount(c.Resources.Requests, starved)
		if used > asked {
			fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name,
				kilos(resource.NewQuantity(used, resource.BinarySI)), resource.NewQuantity(asked, resource.BinarySI), starved)
		}
	}
	return b.String()
}

// kilos rounds down to KiB where there are some: nobody reads bytes.
func kilos(q *resource.Quantity) *resource.Quantity {
	if n := q.Value(); n > 1024 {
		return resource.NewQuantity(n&^1023, resource.BinarySI)
	}
	return q
}

// Exceeds says what a pod uses beyond its own limits of local storage, as the message of its eviction; "" for nothing. volumes is
// what each emptyDir of the disk uses.
func Exceeds(u Use, volumes map[string]int64) string {
	p := u.Pod
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if e := v.EmptyDir; e != nil && e.Medium == "" && e.SizeLimit != nil && e.SizeLimit.Sign() > 0 && volumes[v.Name] > e.SizeLimit.Value() {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, e.SizeLimit.String())
		}
	}
	all, limited := int64(0), len(p.Spec.Containers) > 0
	for i := range p.Spec.Containers {
		limit, ok := p.Spec.Containers[i].Resources.Limits[corev1.ResourceEphemeralStorage]
		all += limit.Value()
		limited = limited && ok
	}
	if sum := u.of(corev1.ResourceEphemeralStorage); limited && sum > all {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ",
			resource.NewQuantity(all, resource.BinarySI))
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		limit, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		if ok && u.Containers[c.Name][corev1.ResourceEphemeralStorage] > limit.Value() {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return ""
}

// Refuses says that a node with these conditions takes no new pod like this one, as upstream's admission has it: under memory pressure
// alone, pods that asked for nothing; else all but critical ones.
func Refuses(pod *corev1.Pod, critical bool, conditions []corev1.NodeConditionType) bool {
	if len(conditions) == 0 || critical {
		return false
	}
	if len(conditions) > 1 || conditions[0] != corev1.NodeMemoryPressure {
		return true
	}
	if pod.Status.QOSClass != corev1.PodQOSBestEffort {
		return false
	}
	return !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Key == corev1.TaintNodeMemoryPressure || t.Key == "" && t.Operator == corev1.TolerationOpExists) &&
			(t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule)
	})
}

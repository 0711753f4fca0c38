package devices

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/node/topology"
)

// Hints are the places where the devices that a container asks for can be had, one list for each resource. Resources whose devices lie
// nowhere in particular have none.
func (s *Stock) Hints(all topology.Mask, pod *corev1.Pod, c *corev1.Container) (list []topology.Hints) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.wanted(c) {
		q := c.Resources.Limits[corev1.ResourceName(name)]
		ask, err := s.choice(pod, c, name, int(q.Value()))
		if err != nil {
			list = append(list, topology.Hints{})
			continue
		}
		list = append(list, s.hints(all, ask))
	}
	return list
}

// PodHints are the places where all devices that a pod's containers ask for at once can be had.
func (s *Stock) PodHints(all topology.Mask, pod *corev1.Pod) (list []topology.Hints) {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := s.atOnce(pod)
	for _, name := range slices.Sorted(maps.Keys(need)) {
		ask, err := s.choice(pod, &corev1.Container{}, name, need[name])
		if err != nil {
			list = append(list, topology.Hints{})
			continue
		}
		list = append(list, s.hints(all, ask))
	}
	return list
}

// atOnce counts the devices that a pod's containers have at the same time. s is locked.
func (s *Stock) atOnce(pod *corev1.Pod) map[string]int {
	lasting, first := map[string]int{}, map[string]int{}
	count := func(c *corev1.Container, add func(name string, n int)) {
		for _, name := range s.wanted(c) {
			q := c.Resources.Limits[corev1.ResourceName(name)]
			add(name, int(q.Value()))
		}
	}
	stay := func(name string, n int) { lasting[name] += n }
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podspec.Sidecar(c) {
			count(c, stay)
		} else {
			count(c, func(name string, n int) { first[name] = max(first[name], lasting[name]+n) })
		}
	}
	for i := range pod.Spec.Containers {
		count(&pod.Spec.Containers[i], stay)
	}
	for name, n := range first {
		lasting[name] = max(lasting[name], n)
	}
	return lasting
}

// hints are the sets of nodes that hold enough devices. s is locked.
func (s *Stock) hints(all topology.Mask, ask choice) topology.Hints {
	every := s.of[ask.resource].all
	placed := false
	for _, d := range every {
		placed = placed || d.on != 0
	}
	if !placed {
		return nil
	}
	total := slices.Collect(maps.Keys(every))
	count := func(ids []string, on topology.Mask) (n int) {
		for _, id := range ids {
			if d := every[id].on; d&on != 0 {
				n++
			}
		}
		return n
	}
	return topology.Fits(all, func(m topology.Mask) bool { return count(total, m) >= ask.need }, func(m topology.Mask) bool {
		return count(ask.free, m)+count(without(ask.spare, ask.free), m) >= ask.need && count(ask.spare, m) == count(ask.spare, all)
	})
}

// Has says that a container has all devices that it asks for.
func (s *Stock) Has(pod *corev1.Pod, c *corev1.Container) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.wanted(c) {
		q := c.Resources.Limits[corev1.ResourceName(name)]
		if g := s.given[pod.UID][c.Name][name]; g == nil || len(g.ids) != int(q.Value()) {
			return false
		}
	}
	return true
}

package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/node/topology"
)

// Wants says that the container asks for devices of a plugin.
func (s *Stock) Wants(c *corev1.Container) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wanted(c)) > 0
}

// wanted are the resources of plugins that the container asks for. What no plugin ever brought is somebody else's: a resource that an
// administrator wrote into the Node's status, or one that a device class stands for. s is locked.
func (s *Stock) wanted(c *corev1.Container) (names []string) {
	for name, q := range c.Resources.Limits {
		if s.of[string(name)] != nil && !q.IsZero() {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}

// Take chooses the devices of a container, near some NUMA nodes if that is not 0. What it has already stays. One caller at a time: two
// would be offered the same devices. The error is the kubelet's.
func (s *Stock) Take(ctx context.Context, pod *corev1.Pod, c *corev1.Container, near topology.Mask) error {
	s.mu.Lock()
	names := s.wanted(c)
	s.mu.Unlock()
	for _, name := range names {
		if err := s.take(ctx, pod, c, name, near); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stock) take(ctx context.Context, pod *corev1.Pod, c *corev1.Container, name string, near topology.Mask) error {
	q := c.Resources.Limits[corev1.ResourceName(name)]
	need := int(q.Value())
	s.mu.Lock()
	if g := s.given[pod.UID][c.Name][name]; g != nil {
		s.mu.Unlock()
		if len(g.ids) == need {
			return nil
		}
		return fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d", pod.UID, c.Name, name, len(g.ids), need)
	}
	ask, err := s.choice(pod, c, name, need)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	ask.near, ask.prefer = near, func(from, must []string, need int) []string { return s.preferred(ctx, name, from, must, need) }
	ids, err := ask.make()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.given[pod.UID]
	if of == nil {
		of = map[string]map[string]*grant{}
		s.given[pod.UID] = of
	}
	if of[c.Name] == nil {
		of[c.Name] = map[string]*grant{}
	}
	of[c.Name][name] = &grant{ids: ids}
	if err := s.save(); err != nil {
		delete(of[c.Name], name) // nobody has what the next agent would not know of
		return err
	}
	return nil
}

// choice gathers what a container can choose from. s is locked.
func (s *Stock) choice(pod *corev1.Pod, c *corev1.Container, name string, need int) (choice, error) {
	sup := s.of[name]
	healthy := sup.healthy()
	switch {
	case sup.plugin == nil && len(sup.all) == 0:
		return choice{}, fmt.Errorf("cannot allocate unregistered device %s", name)
	case len(healthy) == 0:
		return choice{}, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", name)
	}
	used := map[string]bool{}
	for _, containers := range s.given {
		for _, by := range containers {
			if g := by[name]; g != nil {
				for _, id := range g.ids {
					used[id] = true
				}
			}
		}
	}
	ask := choice{resource: name, need: need, spare: intersect(s.spare(pod, c, name), healthy), on: map[string]topology.Mask{}}
	for _, id := range healthy {
		ask.on[id] = sup.all[id].on
		if !used[id] {
			ask.free = append(ask.free, id)
		}
	}
	return ask, nil
}

// spare are the devices that the pod's init containers had, which have ended when the container starts. s is locked.
func (s *Stock) spare(pod *corev1.Pod, c *corev1.Container, name string) (ids []string) {
	var taken []string
	has := func(o *corev1.Container) []string {
		if g := s.given[pod.UID][o.Name][name]; g != nil && o.Name != c.Name {
			return g.ids
		}
		return nil
	}
	for i := range pod.Spec.InitContainers {
		if o := &pod.Spec.InitContainers[i]; podspec.Sidecar(o) {
			taken = append(taken, has(o)...)
		} else {
			ids = append(ids, has(o)...)
		}
	}
	for i := range pod.Spec.Containers {
		taken = append(taken, has(&pod.Spec.Containers[i])...)
	}
	slices.Sort(ids)
	return without(slices.Compact(ids), taken)
}

// preferred asks the plugin which devices it would choose. One that does not answer has no preference.
func (s *Stock) preferred(ctx context.Context, name string, from, must []string, need int) []string {
	s.mu.Lock()
	p := s.of[name].plugin
	asks := p != nil && p.options.GetGetPreferredAllocationAvailable()
	s.mu.Unlock()
	if !asks {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	slices.Sort(from)
	res, err := p.api.GetPreferredAllocation(ctx, &pluginv1.PreferredAllocationRequest{ContainerRequests: []*pluginv1.
		ContainerPreferredAllocationRequest{{AvailableDeviceIDs: from, MustIncludeDeviceIDs: must, AllocationSize: int32(need)}}})
	if err != nil || len(res.GetContainerResponses()) == 0 {
		s.log.Warn("a device plugin has no preferred allocation", "object", name, "err", err)
		return nil
	}
	return res.ContainerResponses[0].GetDeviceIDs()
}

// Allocate asks the plugins what a container needs to use the devices that were chosen for it, once. Any number of callers.
func (s *Stock) Allocate(ctx context.Context, pod types.UID, container string) error {
	s.mu.Lock()
	open := map[string]*grant{}
	for name, g := range s.given[pod][container] {
		if g.answer == nil {
			open[name] = g
		}
	}
	s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(open)) {
		if err := s.allocate(ctx, name, open[name]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stock) allocate(ctx context.Context, name string, g *grant) error {
	s.mu.Lock()
	sup := s.of[name]
	if sup == nil || sup.plugin == nil {
		s.mu.Unlock()
		return fmt.Errorf("cannot allocate unregistered device %s", name)
	}
	p := sup.plugin
	for _, id := range g.ids {
		if !sup.all[id].healthy {
			s.mu.Unlock()
			return fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", name)
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, allocateWithin)
	defer cancel()
	res, err := p.api.Allocate(ctx, &pluginv1.AllocateRequest{ContainerRequests: []*pluginv1.ContainerAllocateRequest{{DevicesIds: g.ids}}})
	if err != nil {
		return err
	}
	if len(res.GetContainerResponses()) == 0 {
		return errors.New("no containers return in allocation response " + res.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.answer = res.ContainerResponses[0]
	return s.save()
}

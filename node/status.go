package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// statuses turn what the runtime shows of a pod into its status in the API.
type statuses struct {
	*common
	images *puller
	alloc  *allocations
}

// podStatus is the pod's status as the runtime shows it. It is pure but for the files of last words.
func (m *statuses) podStatus(w world) corev1.PodStatus {
	pod := w.pod
	st := *pod.Status.DeepCopy()
	if core.Terminal(pod) && w.seen.empty() && st.ContainerStatuses == nil {
		return st // it was not let in, and there is nothing to tell of containers
	}
	st.ObservedGeneration = pod.Generation
	st.HostIP, st.HostIPs = m.cfg.Address.String(), nil
	for _, ip := range m.cfg.hostIPs() {
		st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: ip})
	}
	if st.StartTime == nil {
		now := seconds(w.now)
		st.StartTime = &now
	}
	m.addresses(w, &st)
	st.InitContainerStatuses = m.containerStatuses(w, pod.Spec.InitContainers, true)
	st.ContainerStatuses = m.containerStatuses(w, pod.Spec.Containers, false)
	st.EphemeralContainerStatuses = m.containerStatuses(w, ephemeral(pod), false)
	for i := range st.EphemeralContainerStatuses {
		st.EphemeralContainerStatuses[i].Started = nil // they have no probes
	}
	if !core.Terminal(pod) {
		m.settle(w, &st)
	}
	conditions(w, &st)
	lifeCondition(w, &st)
	m.alloc.conditions(w, &st)
	st.AllocatedResources = podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	st.Resources = podInUse(m.alloc.inForce(w), st.Phase == corev1.PodRunning)
	return st
}

// podInUse are the resources of a pod as a whole (KEP-5419): those that it asks for, and while it runs of CPU and memory those of its own
// cgroup, which has a limit only if all its containers have one.
func podInUse(pod *corev1.Pod, running bool) *corev1.ResourceRequirements {
	opts := podresource.PodResourcesOptions{}
	asks, limits := podresource.PodRequests(pod, opts), podresource.PodLimits(pod, opts)
	for _, n := range resizable {
		if running && !bounded(pod, n) {
			delete(limits, n)
		}
	}
	return &corev1.ResourceRequirements{Requests: asks, Limits: limits}
}

// settle sets the phase. A pod has not ended while a process of it runs: a sidecar may, after the main containers; nor while the node
// ends it: what its last status tells is known when all is down. When it has ended, nothing waits for a restart any more.
func (m *statuses) settle(w world, st *corev1.PodStatus) {
	pod := *w.pod
	was := pod.Status.Phase
	pod.Status.Phase = phase(w.pod, *st)
	if st.Phase = pod.Status.Phase; !core.Terminal(&pod) {
		return
	}
	if w.ends || w.seen.anyRunning() || m.hardware.claims.Held(pod.UID) { // as long as it has devices, nobody else may get them
		if st.Phase = corev1.PodRunning; was == corev1.PodPending || was == "" && !initialized(w.pod, st) {
			st.Phase = corev1.PodPending
		}
		return
	}
	w.pod = &pod
	st.InitContainerStatuses = m.containerStatuses(w, pod.Spec.InitContainers, true)
	st.ContainerStatuses = m.containerStatuses(w, pod.Spec.Containers, false)
}

func (m *statuses) addresses(w world, st *corev1.PodStatus) {
	var ips []string
	if box := w.seen.box(w.pod.UID); box != nil {
		ips = box.ips
		if w.pod.Spec.HostNetwork {
			ips = m.cfg.hostIPs()
		}
	}
	if len(ips) == 0 {
		return // the last known address stays: the containers' end does not undo it
	}
	st.PodIP, st.PodIPs = ips[0], nil
	for _, ip := range ips {
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
	}
}

// containerStatuses are the statuses of the spec's containers, in its order.
func (m *statuses) containerStatuses(w world, specs []corev1.Container, init bool) (list []corev1.ContainerStatus) {
	for i := range specs {
		list = append(list, m.containerStatus(w, &specs[i], init))
	}
	return list
}

// ephemeral are the pod's ephemeral containers as containers.
func ephemeral(pod *corev1.Pod) (list []corev1.Container) {
	for i := range pod.Spec.EphemeralContainers {
		list = append(list, corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return list
}

func (m *statuses) containerStatus(w world, spec *corev1.Container, init bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool), VolumeMounts: mountStatuses(spec, nil)}
	all := w.seen.of(spec.Name)
	if len(all) == 0 {
		s.State.Waiting = m.whyWaiting(w, spec)
		return unseen(w.pod, previous(w.pod, spec.Name), s)
	}
	c := all[0]
	s.RestartCount, s.ContainerID, s.Image, s.ImageID = c.restarts, m.cfg.Runtime.ContainerID(c.id), c.image, c.imageRef
	if s.Image == "" || strings.HasPrefix(s.Image, "sha256:") {
		s.Image = spec.Image
	}
	has := m.alloc.has(w.pod, spec.Name)
	s.Resources, s.AllocatedResources = inUse(has, spec, c.running()), spec.Resources.Requests
	s.VolumeMounts = mountStatuses(spec, c.notes)
	if u := c.user; u != nil {
		s.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: u.Uid, GID: u.Gid, SupplementalGroups: u.SupplementalGroups}}
	}
	if !init {
		s.AllocatedResourcesStatus = m.allocatedStatus(w.pod, spec)
	}
	if len(all) > 1 {
		s.LastTerminationState.Terminated = m.terminated(w.pod, all[1])
	}
	switch {
	case c.running():
		p := w.probed(spec.Name)
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: seconds(c.began)}
		*s.Started, s.Ready = p.started, p.started && p.ready && (!init || podspec.Sidecar(spec))
	case c.unsure():
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerStatusUnknown", Message: "the runtime does not know whether it runs"}
	case c.created():
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	default:
		m.ended(w, spec, c, &s, init)
	}
	return s
}

// unseen tells of a container that the runtime does not have. If it had it once, somebody took it away: its end and its restarts count.
func unseen(pod *corev1.Pod, old *corev1.ContainerStatus, s corev1.ContainerStatus) corev1.ContainerStatus {
	switch {
	case old == nil:
		return s
	case old.State.Terminated != nil || old.RestartCount > 0 && core.Terminal(pod):
		return *old // the status is all that is left of it
	}
	s.LastTerminationState, s.RestartCount = old.LastTerminationState, nextTry(old)
	if old.State.Running != nil {
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137,
			Message: "The container could not be located when the pod was deleted.  The container used to be Running"}
	}
	return s
}

// nextTry is the restart count of the container after the one of the status.
func nextTry(s *corev1.ContainerStatus) int32 {
	if s.ContainerID == "" { // it tells of the next one already
		return s.RestartCount
	}
	return s.RestartCount + 1
}

// ended tells of a container that stopped: as terminated, or as waiting for its next start.
func (m *statuses) ended(w world, spec *corev1.Container, c *container, s *corev1.ContainerStatus, init bool) {
	term := m.terminated(w.pod, c)
	again := runsAgain(w.pod, spec, init, c.exit)
	if init && !podspec.Sidecar(spec) {
		s.Ready = c.exit == 0
	}
	left, length := m.backoff.left(w.pod.UID, spec.Name, w.now)
	switch {
	case w.former(c):
		again, s.Ready = true, false
		if !w.restartsAll(c) {
			left = 0
		}
	case left <= 0: // it tells of its end, or why the start failed that its end follows
		_, refused := m.images.refusal(w.pod.UID, spec.Name)
		again = again && refused && specOf(w.pod, spec.Name) != nil
	}
	if !again || w.pod.DeletionTimestamp != nil || core.Terminal(w.pod) {
		s.State.Terminated = term
		return
	}
	s.LastTerminationState.Terminated = term
	if left <= 0 {
		s.State.Waiting = m.whyWaiting(w, spec)
		return
	}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf(
		"back-off %v restarting failed container=%s pod=%s_%s(%s)", length, spec.Name, w.pod.Name, w.pod.Namespace, w.pod.UID)}
}

func (m *statuses) whyWaiting(w world, spec *corev1.Container) *corev1.ContainerStateWaiting {
	if r, ok := m.images.refusal(w.pod.UID, spec.Name); ok {
		return &corev1.ContainerStateWaiting{Reason: r.reason, Message: r.message}
	}
	reason := "ContainerCreating"
	if len(w.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	return &corev1.ContainerStateWaiting{Reason: reason}
}

func previous(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses,
		pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// inUse tells the resources of a container's cgroup: what the runtime was last given, or what it will be given at the next start.
//
// Unlike Kubernetes, the kernel's figures are not read back: its weights and quotas are rounded.
func inUse(has corev1.ResourceRequirements, spec *corev1.Container, running bool) *corev1.ResourceRequirements {
	if !running {
		has = spec.Resources
	}
	return &corev1.ResourceRequirements{Requests: has.Requests, Limits: has.Limits}
}

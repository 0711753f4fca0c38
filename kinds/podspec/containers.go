package podspec

import corev1 "k8s.io/api/core/v1"

// Sidecar tells init containers that run along with the main ones from those that end before them (KEP-753).
func Sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// HostPorts are the ports of the host that a pod takes for as long as it runs. As in the scheduler those of init containers that end
// are not among them.
func HostPorts(pod *corev1.Pod) (list []corev1.ContainerPort) {
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				list = append(list, p)
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; Sidecar(c) {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return list
}

// ContainerNamed returns the container of a pod with a name, of whatever sort; nil: there is none. It may be written to.
func ContainerNamed(s *corev1.PodSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range s.EphemeralContainers {
		if c := &s.EphemeralContainers[i].EphemeralContainerCommon; c.Name == name {
			return (*corev1.Container)(c)
		}
	}
	return nil
}

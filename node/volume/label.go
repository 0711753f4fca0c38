package volume

import corev1 "k8s.io/api/core/v1"

// keepLabels notes whether the files of a volume that a claim or a driver made are to keep their labels of SELinux.
func (m *Mounter) keepLabels(pod *corev1.Pod, volume string, asIs bool) {
	s := m.state(pod.UID)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.asIs[volume] = asIs
}

// Relabel says that the runtime is to give the volume's files the container's label of SELinux: those that the agent made, and volumes of
// drivers and local ones that the pod may write. Paths of the host keep theirs, and so does what was mounted with a label.
func (m *Mounter) Relabel(pod *corev1.Pod, volume string) bool {
	if !m.cfg.SELinux.Enabled() {
		return false
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.Name != volume:
		case plugin(v) != "":
			return true
		case v.CSI != nil, claimName(pod, v) != "":
			s := m.state(pod.UID)
			m.mu.Lock()
			defer m.mu.Unlock()
			asIs, known := s.asIs[volume]
			return known && !asIs
		}
	}
	return false
}

// SELinux says that files have labels on this machine.
func (m *Mounter) SELinux() bool { return m.cfg.SELinux.Enabled() }

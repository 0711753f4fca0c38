package quota

import corev1 "k8s.io/api/core/v1"

// Add adds b to a.
func Add(a, b corev1.ResourceList) {
	for name, n := range b {
		have := a[name].DeepCopy()
		have.Add(n)
		a[name] = have
	}
}

// Less is by how much b is below a, for what there is in a: nothing is less than zero, and zero is left out.
func Less(a, b corev1.ResourceList) corev1.ResourceList {
	diff := corev1.ResourceList{}
	for name, n := range a {
		n = n.DeepCopy()
		n.Sub(b[name])
		if n.Sign() > 0 {
			diff[name] = n
		}
	}
	return diff
}

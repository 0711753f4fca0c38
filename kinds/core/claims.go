package core

import corev1 "k8s.io/api/core/v1"

// ClaimNames returns the names of the claims that a pod's volumes use, those made for its ephemeral volumes included.
func ClaimNames(p *corev1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}

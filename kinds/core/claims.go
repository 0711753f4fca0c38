package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimNames returns the names of the claims that a pod's volumes use, those made for its ephemeral volumes included.
func ClaimNames(p *corev1.Pod) (names []string) {
	for i := range p.Spec.Volumes {
		if name := ClaimName(p, &p.Spec.Volumes[i]); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// ClaimName is the name of the claim that a volume of the pod is; "": it is none.
func ClaimName(p *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}

// ClaimClass is the name of a claim's StorageClass, "" for none. The annotation of old times goes before the field.
func ClaimClass(c *corev1.PersistentVolumeClaim) string {
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	return storageClass(c, class)
}

// VolumeClass is the name of a volume's StorageClass, "" for none. The annotation of old times goes before the field.
func VolumeClass(v *corev1.PersistentVolume) string { return storageClass(v, v.Spec.StorageClassName) }

func storageClass(o metav1.Object, class string) string {
	if c, ok := o.GetAnnotations()[corev1.BetaStorageClassAnnotation]; ok {
		return c
	}
	return class
}

// VolumePlugin is upstream's name for what mounts a volume, as far as its loops know it.
func VolumePlugin(v *corev1.PersistentVolume) string {
	switch s := &v.Spec; {
	case s.CSI != nil:
		return "kubernetes.io/csi:" + s.CSI.Driver
	case s.HostPath != nil:
		return "kubernetes.io/host-path"
	case s.Local != nil:
		return "kubernetes.io/local-volume"
	case s.NFS != nil:
		return "kubernetes.io/nfs"
	}
	return "N/A"
}

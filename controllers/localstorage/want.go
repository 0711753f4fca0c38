package localstorage

import (
	"cmp"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/localvolume"
)

// The annotations of binding and provisioning. Their names are fixed by schedulers and provisioners.
const (
	selectedNode  = "volume.kubernetes.io/selected-node"
	provisioner   = "volume.kubernetes.io/storage-provisioner"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// The parameters of a class of local storage.
const (
	parameterForm = "kloop.dev/form"            // "image": volumes have a size that they can't exceed; anything else: directories
	parameterFS   = "csi.storage.k8s.io/fstype" // of an image
	formImage     = "image"
)

// nameOf is the name of the claim's volume, as upstream's provisioners make it: it can be made only once.
func nameOf(p *corev1.PersistentVolumeClaim) string { return "pvc-" + string(p.UID) }

// dirOf is the name of the volume's directory in its node's.
func dirOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.Local == nil {
		return ""
	}
	return filepath.Base(pv.Spec.Local.Path)
}

// formOf is the form that a claim's volume gets.
func formOf(class *storagev1.StorageClass, p *corev1.PersistentVolumeClaim) string {
	switch {
	case class.Parameters[parameterForm] != formImage:
		return localvolume.Directory
	case isBlock(p):
		return localvolume.Block
	}
	return cmp.Or(class.Parameters[parameterFS], localvolume.Ext4)
}

func isBlock(p *corev1.PersistentVolumeClaim) bool {
	return p.Spec.VolumeMode != nil && *p.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// unfit says why no node can give the claim what it asks for; "": some may.
func unfit(x wish) string {
	p, class := x.claim, x.class
	for _, m := range p.Spec.AccessModes {
		if m != corev1.ReadWriteOnce && m != corev1.ReadWriteOncePod {
			return "local storage is of one node: it can be ReadWriteOnce or ReadWriteOncePod, not " + string(m)
		}
	}
	size := p.Spec.Resources.Requests[corev1.ResourceStorage]
	form := formOf(class, p)
	switch {
	case p.Spec.Selector != nil:
		return "claim.Spec.Selector is not supported: local storage makes a new volume for each claim"
	case x.source != nil:
		return unlike(x, size.Value())
	case isBlock(p) && form == localvolume.Directory:
		return "a directory is no block device: use the class local-image for volumeMode Block"
	case class.Parameters[parameterForm] == formImage && !localvolume.Image(form):
		return "images have a file system of type ext4 or xfs, not " + form
	case size.Sign() <= 0:
		return "no size is asked for"
	}
	return ""
}

// unlike says why a claim can't be made of its snapshot; "": it can.
func unlike(x wish, size int64) string {
	r := x.source
	switch {
	case r.why != "":
		return r.why
	case x.class.Parameters[parameterForm] != formImage:
		return "a snapshot can only become an image: use the class local-image"
	case isBlock(x.claim) != (r.from.Form == localvolume.Block):
		return "requested volume mode is not that of snapshot " + r.name
	case size < r.bytes:
		return fmt.Sprintf("requested volume size %d is less than the size %d for the source snapshot %s", size, r.bytes, r.name)
	}
	return ""
}

// persistentVolume is the object of a volume that was made.
func persistentVolume(x wish, node *corev1.Node, path string) *corev1.PersistentVolume {
	name, mode := nameOf(x.claim), x.claim.Spec.VolumeMode
	policy := corev1.PersistentVolumeReclaimDelete
	if x.class.ReclaimPolicy != nil {
		policy = *x.class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{localvolume.Finalizer},
			Labels: map[string]string{localvolume.Node: localvolume.Label(node.Name)}, Annotations: map[string]string{
				provisionedBy: x.class.Provisioner, localvolume.Node: node.Name, localvolume.Form: x.form()}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: x.claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   x.claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: policy, StorageClassName: x.class.Name, VolumeMode: mode,
			MountOptions: x.class.MountOptions,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{
				Path: filepath.Join(path, localvolume.DirOf(name, x.claim.Namespace, x.claim.Name))}},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: x.claim.Namespace, Name: x.claim.Name,
				UID: x.claim.UID, ResourceVersion: x.claim.ResourceVersion},
			NodeAffinity: affinity(node)}}
}

// affinity keeps users of the volume on its node.
func affinity(node *corev1.Node) *corev1.VolumeNodeAffinity {
	host := cmp.Or(node.Labels[corev1.LabelHostname], node.Name)
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
			Values: []string{host}}}}}}}
}

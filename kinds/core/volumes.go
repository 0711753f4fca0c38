package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// PersistentVolumes declares the kind.
var PersistentVolumes = &resource.Def[*corev1.PersistentVolume]{
	GVK: gvk("PersistentVolume"), Plural: "persistentvolumes", Short: []string{"pv"}, Status: true,
	Quirks:  resource.Quirks{DeleteReturnsObject: true, MetaErrorsOnce: true, MetaErrorsAgain: true},
	Default: defaultVolume, Prepare: resource.Serving(prepareVolume),
	PrepareStatus: resource.Serving(prepareVolumeStatus),
	Validate:      resource.Serving(validateVolume), Warn: resource.Serving(warnVolume),
	Columns: []resource.Column[*corev1.PersistentVolume]{
		resource.Col("Capacity", "string", func(v *corev1.PersistentVolume) any { return storageOf(v.Spec.Capacity) }),
		resource.Col("Access Modes", "string", func(v *corev1.PersistentVolume) any { return accessModes(v.Spec.AccessModes) }),
		resource.Col("Reclaim Policy", "string", func(v *corev1.PersistentVolume) any {
			return string(v.Spec.PersistentVolumeReclaimPolicy)
		}),
		resource.Col("Status", "string", func(v *corev1.PersistentVolume) any { return phaseOf(v, string(v.Status.Phase)) }),
		resource.Col("Claim", "string", func(v *corev1.PersistentVolume) any { return claimOf(v) }),
		resource.Col("StorageClass", "string", func(v *corev1.PersistentVolume) any {
			return VolumeClass(v)
		}),
		resource.Col("VolumeAttributesClass", "string", func(v *corev1.PersistentVolume) any {
			return orUnset(v.Spec.VolumeAttributesClassName)
		}),
		resource.Col("Reason", "string", func(v *corev1.PersistentVolume) any { return v.Status.Reason }),
		resource.Age[*corev1.PersistentVolume](),
		resource.Wide("VolumeMode", "string", func(v *corev1.PersistentVolume) any { return orUnset(v.Spec.VolumeMode) }),
	},
}

// PersistentVolumeClaims declares the kind.
var PersistentVolumeClaims = &resource.Def[*corev1.PersistentVolumeClaim]{
	GVK: gvk("PersistentVolumeClaim"), Plural: "persistentvolumeclaims", Short: []string{"pvc"}, Namespaced: true, Status: true,
	Quirks:  resource.Quirks{DeleteReturnsObject: true},
	Default: defaultClaim, Prepare: resource.Serving(prepareClaim), PrepareStatus: resource.Serving(prepareClaimStatus),
	Validate: resource.Serving(validateClaim), ValidateStatus: resource.Serving(validateClaimStatus),
	Warn: resource.Serving(warnClaim),
	Columns: []resource.Column[*corev1.PersistentVolumeClaim]{
		resource.Col("Status", "string", func(c *corev1.PersistentVolumeClaim) any { return phaseOf(c, string(c.Status.Phase)) }),
		resource.Col("Volume", "string", func(c *corev1.PersistentVolumeClaim) any { return c.Spec.VolumeName }),
		resource.Col("Capacity", "string", func(c *corev1.PersistentVolumeClaim) any {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return storageOf(c.Status.Capacity)
		}),
		resource.Col("Access Modes", "string", func(c *corev1.PersistentVolumeClaim) any {
			if c.Spec.VolumeName == "" {
				return ""
			}
			return accessModes(c.Status.AccessModes)
		}),
		resource.Col("StorageClass", "string", func(c *corev1.PersistentVolumeClaim) any { return ClaimClass(c) }),
		resource.Col("VolumeAttributesClass", "string", func(c *corev1.PersistentVolumeClaim) any {
			return orUnset(c.Spec.VolumeAttributesClassName)
		}),
		resource.Age[*corev1.PersistentVolumeClaim](),
		resource.Wide("VolumeMode", "string", func(c *corev1.PersistentVolumeClaim) any { return orUnset(c.Spec.VolumeMode) }),
	},
}

func defaultVolume(v *corev1.PersistentVolume) {
	s := &v.Spec
	rule.FillZero(&v.Status.Phase, corev1.VolumePending)
	rule.FillZero(&s.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	rule.Fill(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	DefaultVolumeSource(s)
}

// DefaultVolumeSource completes what of a volume is the same where it stands in another object.
func DefaultVolumeSource(s *corev1.PersistentVolumeSpec) {
	podspec.RoundResources(s.Capacity)
	if s.HostPath != nil {
		rule.Fill(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		rule.FillZero(&s.ISCSI.ISCSIInterface, "default")
	}
	if r := s.RBD; r != nil {
		podspec.DefaultRBD(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	if s.ScaleIO != nil {
		podspec.DefaultScaleIO(&s.ScaleIO.StorageMode, &s.ScaleIO.FSType)
	}
	podspec.DefaultAzureDisk(s.AzureDisk)
}

func prepareVolume(v, old *corev1.PersistentVolume) {
	if old == nil {
		v.Status.Phase, v.Status.LastPhaseTransitionTime = corev1.VolumePending, new(metav1.Now())
	}
}

// prepareVolumeStatus notes when the phase changed, unless the writer says when.
func prepareVolumeStatus(v, old *corev1.PersistentVolume) {
	was, is := old.Status.LastPhaseTransitionTime, v.Status.LastPhaseTransitionTime
	switch {
	case v.Status.Phase == old.Status.Phase:
		if is == nil {
			v.Status.LastPhaseTransitionTime = was
		}
	case is == nil, was != nil && was.Equal(is):
		v.Status.LastPhaseTransitionTime = new(metav1.Now())
	}
}

func defaultClaim(c *corev1.PersistentVolumeClaim) {
	rule.FillZero(&c.Status.Phase, corev1.ClaimPending)
	podspec.DefaultClaim(&c.Spec)
	podspec.RoundResources(c.Status.Capacity)
	podspec.RoundResources(c.Status.AllocatedResources)
}

func prepareClaim(c, old *corev1.PersistentVolumeClaim) {
	if old != nil {
		podspec.PrepareClaim(&c.Spec, &old.Spec)
		return
	}
	c.Status.Phase = corev1.ClaimPending
	podspec.PrepareClaim(&c.Spec, nil)
}

// prepareClaimStatus drops the health, whose feature is off by default upstream too.
func prepareClaimStatus(c, old *corev1.PersistentVolumeClaim) {
	if old.Status.HealthStatus == nil {
		c.Status.HealthStatus = nil
	}
}

func storageOf(list corev1.ResourceList) string {
	q := list[corev1.ResourceStorage]
	return q.String()
}

var shortModes = []struct {
	mode  corev1.PersistentVolumeAccessMode
	short string
}{{corev1.ReadWriteOnce, "RWO"}, {corev1.ReadOnlyMany, "ROX"}, {corev1.ReadWriteMany, "RWX"}, {corev1.ReadWriteOncePod, "RWOP"}}

func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var list []string
	for _, s := range shortModes {
		for _, m := range modes {
			if m == s.mode {
				list = append(list, s.short)
				break
			}
		}
	}
	return strings.Join(list, ",")
}

func phaseOf(o metav1.Object, phase string) string {
	if o.GetDeletionTimestamp() != nil {
		return "Terminating"
	}
	return phase
}

func claimOf(v *corev1.PersistentVolume) string {
	if r := v.Spec.ClaimRef; r != nil {
		return r.Namespace + "/" + r.Name
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

func orUnset[T ~string](p *T) string {
	if p == nil {
		return cell.Unset
	}
	return string(*p)
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

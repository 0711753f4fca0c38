package pods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// PersistentVolumes completes the kind.
var PersistentVolumes = resource.Complete(core.PersistentVolumes, func(d *resource.Def[*corev1.PersistentVolume]) {
	d.Quirks = resource.Quirks{DeleteReturnsObject: true, MetaErrorsOnce: true, MetaErrorsAgain: true}
	d.Default = defaultVolume
	d.Prepare = resource.Serving(prepareVolume)
	d.PrepareStatus = resource.Serving(prepareVolumeStatus)
	d.Validate = resource.Serving(validateVolume)
	d.Warn = resource.Serving(warnVolume)
	d.Columns = []resource.Column[*corev1.PersistentVolume]{
		resource.Col("Capacity", "string", func(v *corev1.PersistentVolume) any { return storageOf(v.Spec.Capacity) }),
		resource.Col("Access Modes", "string", func(v *corev1.PersistentVolume) any { return accessModes(v.Spec.AccessModes) }),
		resource.Col("Reclaim Policy", "string", func(v *corev1.PersistentVolume) any {
			return string(v.Spec.PersistentVolumeReclaimPolicy)
		}),
		resource.Col("Status", "string", func(v *corev1.PersistentVolume) any { return phaseOf(v, string(v.Status.Phase)) }),
		resource.Col("Claim", "string", func(v *corev1.PersistentVolume) any { return claimOf(v) }),
		resource.Col("StorageClass", "string", func(v *corev1.PersistentVolume) any {
			return core.VolumeClass(v)
		}),
		resource.Col("VolumeAttributesClass", "string", func(v *corev1.PersistentVolume) any {
			return orUnset(v.Spec.VolumeAttributesClassName)
		}),
		resource.Col("Reason", "string", func(v *corev1.PersistentVolume) any { return v.Status.Reason }),
		resource.Age[*corev1.PersistentVolume](),
		resource.Wide("VolumeMode", "string", func(v *corev1.PersistentVolume) any { return orUnset(v.Spec.VolumeMode) }),
	}
})

// PersistentVolumeClaims completes the kind.
var PersistentVolumeClaims = resource.Complete(core.PersistentVolumeClaims, func(d *resource.Def[*corev1.PersistentVolumeClaim]) {
	d.Quirks = resource.Quirks{DeleteReturnsObject: true}
	d.Default = defaultClaim
	d.Prepare = resource.Serving(prepareClaim)
	d.PrepareStatus = resource.Serving(prepareClaimStatus)
	d.Validate = resource.Serving(validateClaim)
	d.ValidateStatus = resource.Serving(validateClaimStatus)
	d.Warn = resource.Serving(warnClaim)
	d.Columns = []resource.Column[*corev1.PersistentVolumeClaim]{
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
		resource.Col("StorageClass", "string", func(c *corev1.PersistentVolumeClaim) any { return core.ClaimClass(c) }),
		resource.Col("VolumeAttributesClass", "string", func(c *corev1.PersistentVolumeClaim) any {
			return orUnset(c.Spec.VolumeAttributesClassName)
		}),
		resource.Age[*corev1.PersistentVolumeClaim](),
		resource.Wide("VolumeMode", "string", func(c *corev1.PersistentVolumeClaim) any { return orUnset(c.Spec.VolumeMode) }),
	}
})

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

func orUnset[T ~string](p *T) string {
	if p == nil {
		return cell.Unset
	}
	return string(*p)
}

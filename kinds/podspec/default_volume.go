package podspec

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/rule"
)

const (
	fileMode     int32 = 0o644
	tokenSeconds int64 = 3600
)

// defaultVolume completes a volume; one without any source is an empty directory. All sources of one with
// several are completed, before it is refused: answers show what stands in them.
func defaultVolume(s *corev1.VolumeSource) {
	if reflect.ValueOf(*s).IsZero() {
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	if s.Secret != nil {
		rule.Fill(&s.Secret.DefaultMode, fileMode)
	}
	if s.ConfigMap != nil {
		rule.Fill(&s.ConfigMap.DefaultMode, fileMode)
	}
	if d := s.DownwardAPI; d != nil {
		rule.Fill(&d.DefaultMode, fileMode)
		defaultFiles(d.Items)
	}
	if s.Projected != nil {
		defaultProjected(s.Projected)
	}
	if s.HostPath != nil {
		rule.Fill(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		DefaultClaim(&s.Ephemeral.VolumeClaimTemplate.Spec)
	}
	if s.Image != nil {
		rule.FillZero(&s.Image.PullPolicy, pullPolicy(s.Image.Reference))
	}
	if s.ISCSI != nil {
		rule.FillZero(&s.ISCSI.ISCSIInterface, "default")
	}
	if r := s.RBD; r != nil {
		DefaultRBD(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	if s.ScaleIO != nil {
		DefaultScaleIO(&s.ScaleIO.StorageMode, &s.ScaleIO.FSType)
	}
	DefaultAzureDisk(s.AzureDisk)
}

// DefaultRBD completes what the sources of pods and of persistent volumes have in common, as the next two do.
func DefaultRBD(pool, user, keyring *string) {
	rule.FillZero(pool, "rbd")
	rule.FillZero(user, "admin")
	rule.FillZero(keyring, "/etc/ceph/keyring")
}

// DefaultScaleIO completes a source's mode and file system.
func DefaultScaleIO(mode, fsType *string) {
	rule.FillZero(mode, "ThinProvisioned")
	rule.FillZero(fsType, "xfs")
}

// DefaultAzureDisk completes a source, if there is one.
func DefaultAzureDisk(d *corev1.AzureDiskVolumeSource) {
	if d == nil {
		return
	}
	rule.Fill(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	rule.Fill(&d.Kind, corev1.AzureSharedBlobDisk)
	rule.Fill(&d.FSType, "ext4")
	rule.Fill(&d.ReadOnly, false)
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	rule.Fill(&p.DefaultMode, fileMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultFiles(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			rule.Fill(&t.ExpirationSeconds, tokenSeconds)
		}
	}
}

func defaultFiles(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if ref := items[i].FieldRef; ref != nil {
			rule.FillZero(&ref.APIVersion, "v1")
		}
	}
}

// DefaultClaim fills the unset fields of a claim for storage, of its own or in a template.
func DefaultClaim(s *corev1.PersistentVolumeClaimSpec) {
	rule.Fill(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundResources(s.Resources.Limits)
	RoundResources(s.Resources.Requests)
}

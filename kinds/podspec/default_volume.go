package podspec

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/rule"
)

const (
	fileMode           int32 = 0o644
	tokenSeconds       int64 = 3600
	certificateSeconds int32 = 86400
)

// defaultVolume completes a volume; one without any source is an empty directory.
func defaultVolume(s *corev1.VolumeSource) {
	switch {
	case s.Secret != nil:
		rule.Fill(&s.Secret.DefaultMode, fileMode)
	case s.ConfigMap != nil:
		rule.Fill(&s.ConfigMap.DefaultMode, fileMode)
	case s.DownwardAPI != nil:
		rule.Fill(&s.DownwardAPI.DefaultMode, fileMode)
		defaultFiles(s.DownwardAPI.Items)
	case s.Projected != nil:
		defaultProjected(s.Projected)
	case s.HostPath != nil:
		rule.Fill(&s.HostPath.Type, corev1.HostPathUnset)
	case s.Ephemeral != nil:
		if t := s.Ephemeral.VolumeClaimTemplate; t != nil {
			DefaultClaim(&t.Spec)
		}
	case s.Image != nil:
		rule.FillZero(&s.Image.PullPolicy, pullPolicy(s.Image.Reference))
	case reflect.ValueOf(*s).IsZero():
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	default:
		defaultNetworkVolume(s)
	}
}

func defaultNetworkVolume(s *corev1.VolumeSource) {
	switch {
	case s.ISCSI != nil:
		rule.FillZero(&s.ISCSI.ISCSIInterface, "default")
	case s.RBD != nil:
		rule.FillZero(&s.RBD.RBDPool, "rbd")
		rule.FillZero(&s.RBD.RadosUser, "admin")
		rule.FillZero(&s.RBD.Keyring, "/etc/ceph/keyring")
	case s.ScaleIO != nil:
		rule.FillZero(&s.ScaleIO.StorageMode, "ThinProvisioned")
		rule.FillZero(&s.ScaleIO.FSType, "xfs")
	case s.AzureDisk != nil:
		DefaultAzureDisk(s.AzureDisk)
	}
}

// DefaultAzureDisk completes a source that pods and persistent volumes share.
func DefaultAzureDisk(d *corev1.AzureDiskVolumeSource) {
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
		if c := p.Sources[i].PodCertificate; c != nil {
			rule.Fill(&c.MaxExpirationSeconds, certificateSeconds)
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

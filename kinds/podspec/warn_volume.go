package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (w *warner) volume(s *corev1.VolumeSource, path *field.Path) {
	for _, f := range []struct {
		name, says string
		set        bool
	}{{"photonPersistentDisk", photonText, s.PhotonPersistentDisk != nil},
		{"gitRepo", "deprecated in v1.11, and disabled by default in v1.33+", s.GitRepo != nil},
		{"flocker", "deprecated in v1.22, non-functional in v1.25+", s.Flocker != nil},
		{"glusterfs", glusterText, s.Glusterfs != nil},
		{"quobyte", "deprecated in v1.22, non-functional in v1.25+", s.Quobyte != nil},
		{"scaleIO", scaleIOText, s.ScaleIO != nil},
		{"storageOS", storageOSText, s.StorageOS != nil},
		{"cephfs", cephText, s.CephFS != nil},
		{"rbd", cephText, s.RBD != nil}} {
		if f.set {
			w.warn(path.Child(f.name), "%s", f.says)
		}
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		w.list = append(w.list, ClaimWarnings(&s.Ephemeral.VolumeClaimTemplate.Spec, path.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
	}
}

// What is said of types of volumes that are gone.
const (
	photonText    = "deprecated in v1.11, non-functional in v1.16+"
	scaleIOText   = "deprecated in v1.16, non-functional in v1.22+"
	storageOSText = "deprecated in v1.22, non-functional in v1.25+"
	glusterText   = "deprecated in v1.25, non-functional in v1.26+"
	cephText      = "deprecated in v1.28, non-functional in v1.31+"
)

// SourceWarnings warns of types of persistent volumes that are gone.
func SourceWarnings(s *corev1.PersistentVolumeSource, path *field.Path) []string {
	w := &warner{}
	for _, f := range []struct {
		name, says string
		set        bool
	}{{"cephfs", cephText, s.CephFS != nil}, {"photonPersistentDisk", photonText, s.PhotonPersistentDisk != nil},
		{"scaleIO", scaleIOText, s.ScaleIO != nil}, {"storageOS", storageOSText, s.StorageOS != nil},
		{"glusterfs", glusterText, s.Glusterfs != nil}, {"rbd", cephText, s.RBD != nil}} {
		if f.set {
			w.warn(path.Child(f.name), "%s", f.says)
		}
	}
	return w.list
}

// overlaps warns of files of one volume that get in each other's way.
func (w *warner) overlaps(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		w.collide(fmt.Sprintf("volume %q (ConfigMap %q)", v.Name, v.ConfigMap.Name), nil, keyPaths(v.ConfigMap.Items))
	case v.Secret != nil:
		w.collide(fmt.Sprintf("volume %q (Secret %q)", v.Name, v.Secret.SecretName), nil, keyPaths(v.Secret.Items))
	case v.DownwardAPI != nil:
		w.collide(fmt.Sprintf("volume %q (DownwardAPI)", v.Name), nil, filePaths(v.DownwardAPI.Items))
	case v.Projected != nil:
		var all []string
		for _, s := range v.Projected.Sources {
			what, paths := projected(&s)
			if what == "" {
				w.list = append(w.list, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
			all = w.collide(fmt.Sprintf("volume %q (Projected %s)", v.Name, what), all, paths)
		}
	}
}

// projected names a source and the files that it makes, as far as the pod tells.
func projected(s *corev1.VolumeProjection) (what string, paths []string) {
	switch {
	case s.ConfigMap != nil:
		return fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name), keyPaths(s.ConfigMap.Items)
	case s.Secret != nil:
		return fmt.Sprintf("Secret %q", s.Secret.Name), keyPaths(s.Secret.Items)
	case s.DownwardAPI != nil:
		return "DownwardAPI", filePaths(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return "ServiceAccountToken", []string{s.ServiceAccountToken.Path}
	case s.ClusterTrustBundle != nil:
		return "ClusterTrustBundle", []string{s.ClusterTrustBundle.Path}
	case s.PodCertificate != nil:
		return "PodCertificate", nil
	}
	return "", nil
}

func keyPaths(items []corev1.KeyToPath) (paths []string) {
	for _, i := range items {
		paths = append(paths, i.Path)
	}
	return paths
}

func filePaths(items []corev1.DownwardAPIVolumeFile) (paths []string) {
	for _, i := range items {
		paths = append(paths, i.Path)
	}
	return paths
}

// collide warns of paths that are, or lie below, one of the others, and returns all of them.
func (w *warner) collide(what string, before, paths []string) []string {
	for _, p := range paths {
		p = strings.TrimRight(p, "/")
		for _, o := range before {
			if p == o || strings.HasPrefix(p, o+"/") || strings.HasPrefix(o, p+"/") {
				w.list = append(w.list, fmt.Sprintf("%s: overlapping paths: %q with %q", what, p, o))
				break
			}
		}
		before = append(before, p)
	}
	return before
}

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
		w.collide(v, source{"ConfigMap", &v.ConfigMap.Name, keyPaths(v.ConfigMap.Items)}, &placed{})
	case v.Secret != nil:
		w.collide(v, source{"Secret", &v.Secret.SecretName, keyPaths(v.Secret.Items)}, &placed{})
	case v.DownwardAPI != nil:
		w.collide(v, source{"DownwardAPI", nil, filePaths(v.DownwardAPI.Items)}, &placed{})
	case v.Projected != nil:
		all := &placed{}
		for i := range v.Projected.Sources {
			s := projected(&v.Projected.Sources[i])
			if s.kind == "" {
				w.list = append(w.list, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
			w.collide(v, s, all)
		}
	}
}

// A source names what the files of a volume, or some of them, come from.
type source struct {
	kind  string
	name  *string // nil: none of its own
	paths []string
}

// projected tells a source and the files that it makes, as far as the pod says.
func projected(s *corev1.VolumeProjection) source {
	switch {
	case s.ConfigMap != nil:
		return source{"ConfigMap", &s.ConfigMap.Name, keyPaths(s.ConfigMap.Items)}
	case s.Secret != nil:
		return source{"Secret", &s.Secret.Name, keyPaths(s.Secret.Items)}
	case s.DownwardAPI != nil:
		return source{"DownwardAPI", nil, filePaths(s.DownwardAPI.Items)}
	case s.ServiceAccountToken != nil:
		return source{"ServiceAccountToken", nil, []string{s.ServiceAccountToken.Path}}
	case s.ClusterTrustBundle != nil:
		return source{"ClusterTrustBundle", nil, []string{s.ClusterTrustBundle.Path}}
	case s.PodCertificate != nil:
		return source{kind: "PodCertificate"}
	}
	return source{}
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

// collide warns of paths that are, or lie below, one of the others, and adds them to those.
func (w *warner) collide(v *corev1.Volume, s source, all *placed) {
	for _, p := range s.paths {
		p = strings.TrimRight(p, "/")
		if o, ok := all.rival(p); ok {
			w.list = append(w.list, fmt.Sprintf("volume %q (%s): overlapping paths: %q with %q", v.Name, s.text(v.Projected != nil), p, o))
		}
		all.add(p)
	}
}

// text names the source in a warning; it may be one of several of a volume.
func (s source) text(one bool) string {
	text := s.kind
	if s.name != nil {
		text += fmt.Sprintf(" %q", *s.name)
	}
	if one {
		return "Projected " + text
	}
	return text
}

package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A file is one file of a volume that follows the API.
type file struct {
	data []byte
	mode fs.FileMode // permissions
	user int         // -1: root
}

// A filling gathers the files of one volume.
type filling struct {
	m     *Mounter
	pod   *corev1.Pod
	path  string          // of the volume on the host
	files map[string]file // by path in the volume
	next  time.Duration   // when to look again; 0: only on a change
}

// defaultMode is the API's default of defaultMode.
const defaultMode = 0o644

// write brings the volume at path up to date. next says when to look again.
func (m *Mounter) write(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, path string) (next time.Duration, err error) {
	f := &filling{m: m, pod: pod, path: path, files: map[string]file{}}
	if err := f.fill(ctx, v); err != nil {
		return f.next, err
	}
	group := fsGroup(pod)
	if group != nil {
		for name, x := range f.files {
			x.mode |= 0o440
			f.files[name] = x
		}
	}
	s, sum := m.state(pod.UID), digest(f.files, group)
	m.mu.Lock()
	same := s.written[v.Name] == sum
	m.mu.Unlock()
	if same && intact(path) {
		return f.next, nil
	}
	if err := replace(path, f.files, group); err != nil {
		return f.next, fmt.Errorf("write the files: %w", err)
	}
	m.mu.Lock()
	s.written[v.Name] = sum
	m.mu.Unlock()
	return f.next, nil
}

// intact says that the volume has content at all: it may have been removed and made anew.
func intact(path string) bool {
	_, err := os.Stat(path + "/" + dataLink)
	return err == nil
}

func digest(files map[string]file, group *int64) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		fmt.Fprintf(h, "%q %o %d %d\n", name, f.mode, f.user, len(f.data))
		h.Write(f.data)
	}
	if group != nil {
		fmt.Fprintf(h, "group %d", *group)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// fill reads what the volume shows.
func (f *filling) fill(ctx context.Context, v *corev1.Volume) error {
	switch {
	case v.ConfigMap != nil:
		s := v.ConfigMap
		return f.configMap(ctx, s.Name, s.Items, modeOf(s.DefaultMode), s.Optional)
	case v.Secret != nil:
		s := v.Secret
		return f.secret(ctx, s.SecretName, s.Items, modeOf(s.DefaultMode), s.Optional)
	case v.DownwardAPI != nil:
		return f.downward(ctx, v.DownwardAPI.Items, modeOf(v.DownwardAPI.DefaultMode))
	}
	var errs []error
	mode := modeOf(v.Projected.DefaultMode)
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		if s.PodCertificate != nil {
			errs = append(errs, f.certificate(ctx, fmt.Sprintf("%s/%d", v.Name, i), s.PodCertificate, mode))
			continue
		}
		errs = append(errs, f.projected(ctx, s, mode))
	}
	return joined(errs)
}

// several errors of one volume stand in one line.
type several struct{ error }

func (e several) Error() string { return "[" + strings.ReplaceAll(e.error.Error(), "\n", ", ") + "]" }

func (e several) Unwrap() error { return e.error }

// joined is the error of a volume's parts; nil: there is none.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return several{errors.Join(errs...)}
}

func (f *filling) projected(ctx context.Context, s *corev1.VolumeProjection, mode fs.FileMode) error {
	switch {
	case s.ConfigMap != nil:
		return f.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, mode, s.ConfigMap.Optional)
	case s.Secret != nil:
		return f.secret(ctx, s.Secret.Name, s.Secret.Items, mode, s.Secret.Optional)
	case s.DownwardAPI != nil:
		return f.downward(ctx, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		return f.token(ctx, s.ServiceAccountToken, mode)
	case s.ClusterTrustBundle != nil:
		return f.trustBundle(ctx, s.ClusterTrustBundle, mode)
	}
	return nil
}

// private is the mode and the owner of a file that is meant for the pod's containers alone.
func (f *filling) private(mode fs.FileMode) (m fs.FileMode, user int) {
	if uid := soleUser(f.pod); uid != nil {
		return 0o600, int(*uid)
	}
	if fsGroup(f.pod) != nil {
		return 0o600, -1
	}
	return mode, -1
}

// soon has the volume looked at again then, at the latest.
func (f *filling) soon(left time.Duration) {
	if left = max(left, time.Second); f.next == 0 || left < f.next {
		f.next = left
	}
}

func modeOf(m *int32) fs.FileMode {
	if m == nil {
		return defaultMode
	}
	return fs.FileMode(*m) & fs.ModePerm
}

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// emptyDir makes a directory that any user of the pod's containers may use.
func (m *Mounter) emptyDir(path string, src *corev1.EmptyDirVolumeSource, pod *corev1.Pod) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	mode := fs.ModePerm // whatever the umask
	switch {
	case src.Medium == corev1.StorageMediumDefault:
	case src.Medium == corev1.StorageMediumMemory:
		mode |= fs.ModeSticky // as every new tmpfs
		if err := tmpfs(path, "mode=1777"+m.room(pod, src.SizeLimit)); err != nil {
			return err
		}
	case strings.HasPrefix(string(src.Medium), string(corev1.StorageMediumHugePages)):
		size, err := hugePages(src.Medium, pod)
		if err == nil {
			err = memory("hugetlbfs", unix.HUGETLBFS_MAGIC, path, "pagesize="+strconv.FormatInt(size, 10))
		}
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("emptyDir of medium %q is not supported yet", src.Medium)
	}
	if group := fsGroup(pod); group != nil {
		mode |= fs.ModeSetgid // what is made inside belongs to the group too
		if err := os.Lchown(path, -1, int(*group)); err != nil {
			return fmt.Errorf("give the directory to group %d: %w", *group, err)
		}
	}
	return os.Chmod(path, mode)
}

// room is the option for the size of a pod's volume in memory: what the node can give its pods, at most what the pod may use, at most its
// own limit.
func (m *Mounter) room(pod *corev1.Pod, limit *apiresource.Quantity) string {
	size := int64(0)
	if m.cfg.Memory != nil {
		size = m.cfg.Memory()
	}
	all := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
	for _, most := range []*apiresource.Quantity{all.Memory(), limit} {
		if most != nil && most.Sign() > 0 && (size <= 0 || most.Value() < size) {
			size = most.Value()
		}
	}
	if size <= 0 {
		return ""
	}
	return ",size=" + strconv.FormatInt(size, 10)
}

// contentDir makes the directory of a volume that follows the API. What is secret stays off the disk.
func (m *Mounter) contentDir(path string, v *corev1.Volume, pod *corev1.Pod) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	mode := fs.ModePerm
	if fsGroup(pod) != nil {
		mode |= fs.ModeSetgid
	}
	if v.ConfigMap == nil {
		mode |= fs.ModeSticky
		if err := tmpfs(path, "mode=0755"+m.room(pod, nil)); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// checkHostPath checks that the path has the volume's type, and makes it where the type allows.
func checkHostPath(src *corev1.HostPathVolumeSource) error {
	if src.Type == nil || *src.Type == corev1.HostPathUnset {
		return nil
	}
	info, err := os.Stat(src.Path)
	missing := errors.Is(err, os.ErrNotExist)
	if err != nil && !missing {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	switch t := *src.Type; {
	case missing && t == corev1.HostPathDirectoryOrCreate:
		return os.MkdirAll(src.Path, 0o755)
	case missing && t == corev1.HostPathFileOrCreate:
		return makeFile(src.Path)
	case missing:
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: path %q does not exist", src.Path,
			hostTypes[t], src.Path)
	case !isHostType(t, info.Mode()):
		return fmt.Errorf("hostPath type check failed: %s is not a %s, it's a %s", src.Path, hostTypes[t], hostType(info.Mode()))
	}
	return nil
}

// hostType is the type of a path that is there.
func hostType(m fs.FileMode) corev1.HostPathType {
	for _, t := range []corev1.HostPathType{corev1.HostPathDirectory, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev,
		corev1.HostPathBlockDev} {
		if isHostType(t, m) {
			return t
		}
	}
	return "unknown"
}

var hostTypes = map[corev1.HostPathType]string{
	corev1.HostPathDirectory: "directory", corev1.HostPathDirectoryOrCreate: "directory",
	corev1.HostPathFile: "file", corev1.HostPathFileOrCreate: "file", corev1.HostPathSocket: "socket file",
	corev1.HostPathCharDev: "character device", corev1.HostPathBlockDev: "block device",
}

func isHostType(t corev1.HostPathType, m fs.FileMode) bool {
	switch t {
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		return m.IsDir()
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		return m.IsRegular()
	case corev1.HostPathSocket:
		return m&fs.ModeSocket != 0
	case corev1.HostPathCharDev:
		return m&fs.ModeCharDevice != 0
	case corev1.HostPathBlockDev:
		return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0
	}
	return false
}

func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

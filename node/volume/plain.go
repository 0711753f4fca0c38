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
)

// emptyDir makes a directory that any user of the pod's containers may use.
func emptyDir(path string, src *corev1.EmptyDirVolumeSource, pod *corev1.Pod) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	mode := fs.ModePerm // whatever the umask
	switch {
	case src.Medium == corev1.StorageMediumDefault:
	case src.Medium == corev1.StorageMediumMemory:
		mode |= fs.ModeSticky // as every new tmpfs
		options := "mode=1777"
		if src.SizeLimit != nil && src.SizeLimit.Value() > 0 {
			options += ",size=" + strconv.FormatInt(src.SizeLimit.Value(), 10)
		}
		if err := tmpfs(path, options); err != nil {
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

// contentDir makes the directory of a volume that follows the API. What is secret stays off the disk.
func contentDir(path string, v *corev1.Volume) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	mode := fs.ModePerm
	if v.ConfigMap == nil {
		mode |= fs.ModeSticky
		if err := tmpfs(path, "mode=0755"); err != nil {
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
	case missing || !isHostType(t, info.Mode()):
		return fmt.Errorf("hostPath type check failed: %s is not a %s", src.Path, hostTypes[t])
	}
	return nil
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
		return fmt.Errorf("make the file: %w", err)
	}
	return f.Close()
}

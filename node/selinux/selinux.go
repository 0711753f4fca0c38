// Package selinux says which label files need that containers of a pod may use, on a machine whose kernel has SELinux.
//
// The labels that nobody names are the policy's, where container runtimes find theirs too: /usr/share/containers/selinux/contexts, or
// contexts/lxc_contexts of the policy.
package selinux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// A Policy has the label of containers' files. A nil one is that of a machine without SELinux: nothing there has a label. A zero one says
// nothing of containers.
type Policy struct {
	user, role, sort string
}

// Read returns the machine's policy; nil: SELinux is off. An error says why it is zero.
func Read() (*Policy, error) {
	if !enabled("/sys/fs/selinux", "/proc/self/attr/current") {
		return nil, nil
	}
	p, err := read("/")
	if err != nil {
		return &Policy{}, fmt.Errorf("read what the policy of SELinux says of containers: %w", err)
	}
	return p, nil
}

// New returns a policy whose label of files is this one, as lxc_contexts has it.
func New(file string) (*Policy, error) {
	f := strings.SplitN(file, ":", 4)
	if len(f) < 3 {
		return nil, errors.New("the label of containers' files is no label: " + file)
	}
	return &Policy{f[0], f[1], f[2]}, nil
}

// enabled says that the kernel goes by a policy: its file system is mounted, and this process has a label of it.
func enabled(fs, own string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(fs, &st); err != nil || uint32(st.Type) != unix.SELINUX_MAGIC || st.Flags&unix.ST_RDONLY != 0 {
		return false
	}
	label, err := os.ReadFile(own)
	return err == nil && strings.TrimRight(string(label), "\x00\n") != "kernel" // which means that no policy is loaded
}

// read reads what the policy in a directory tree says of containers.
func read(root string) (*Policy, error) {
	text, err := os.ReadFile(filepath.Join(root, "usr/share/containers/selinux/contexts"))
	if err != nil {
		config, cerr := os.ReadFile(filepath.Join(root, "etc/selinux/config"))
		if cerr != nil {
			return nil, cerr
		}
		text, err = os.ReadFile(filepath.Join(root, "etc/selinux", setting(config, "SELINUXTYPE"), "contexts/lxc_contexts"))
	}
	if err != nil {
		return nil, err
	}
	return New(setting(text, "file"))
}

// setting finds the value of a key, in lines of key = "value".
func setting(text []byte, key string) string {
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, "="); ok && strings.TrimSpace(k) == key {
			return strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return ""
}

// Enabled says that files have labels on this machine.
func (p *Policy) Enabled() bool { return p != nil }

// Labels says that files at the path can have labels: the kernel says so of the file system that is mounted there.
func (p *Policy) Labels(path string) bool {
	if p == nil {
		return false
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && labelled(string(text), path)
}

// labelled looks for the file system at the path in a table of mounts.
func labelled(table, path string) bool {
	best, has := "", false
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		if at := f[4]; len(at) >= len(best) && (at == "/" || path == at || strings.HasPrefix(path, at+"/")) {
			best, has = at, slices.Contains(strings.Split(f[len(f)-1], ","), "seclabel")
		}
	}
	return has
}

// File is the label of files for a container with these options; "": the runtime chooses one that nobody knows before, for the options
// name no level.
func (p *Policy) File(o *corev1.SELinuxOptions) string {
	if p == nil || p.sort == "" || o == nil || o.Level == "" {
		return ""
	}
	user := p.user
	if o.User != "" {
		user = o.User
	}
	return strings.Join([]string{user, p.role, p.sort, o.Level}, ":")
}

// Uses are the labels that a pod's containers need a volume's files to have, each once, and whether the pod wants its runtime to write them
// into every file instead of mounting the volume with one.
func (p *Policy) Uses(pod *corev1.Pod, volume string) (labels []string, recursive bool) {
	if p == nil {
		return nil, false
	}
	sc := pod.Spec.SecurityContext
	if sc == nil {
		sc = &corev1.PodSecurityContext{}
	}
	seen := map[string]bool{}
	note := func(own *corev1.SecurityContext, mounts []corev1.VolumeMount) {
		o := sc.SELinuxOptions
		if own != nil && own.SELinuxOptions != nil {
			o = own.SELinuxOptions
		}
		label := p.File(o)
		for i := range mounts {
			if o != nil && mounts[i].Name == volume && !seen[label] {
				seen[label] = true
				labels = append(labels, label)
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			note(list[i].SecurityContext, list[i].VolumeMounts)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		note(pod.Spec.EphemeralContainers[i].SecurityContext, pod.Spec.EphemeralContainers[i].VolumeMounts)
	}
	return labels, sc.SELinuxChangePolicy != nil && *sc.SELinuxChangePolicy == corev1.SELinuxChangePolicyRecursive
}

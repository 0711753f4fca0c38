package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kernel's CPU units: shares per CPU, and the period of quotas in microseconds.
const (
	sharesPerCPU = 1024
	minShares    = 2
	maxShares    = 262144
	quotaPeriod  = 100000
	minQuota     = 1000
)

// resources translates requests and limits to the kernel's terms.
func resources(pod *corev1.Pod, c *corev1.Container) *cri.LinuxContainerResources {
	r := &cri.LinuxContainerResources{CpuPeriod: quotaPeriod, OomScoreAdj: oomScore(pod, c)}
	request, limit := c.Resources.Requests.Cpu(), c.Resources.Limits.Cpu()
	if _, asked := c.Resources.Requests[corev1.ResourceCPU]; !asked && !limit.IsZero() {
		request = limit
	}
	r.CpuShares = min(max(request.MilliValue()*sharesPerCPU/1000, minShares), maxShares)
	if !limit.IsZero() {
		r.CpuQuota = max(limit.MilliValue()*quotaPeriod/1000, minQuota)
	}
	r.MemoryLimitInBytes = c.Resources.Limits.Memory().Value()
	if r.MemoryLimitInBytes > 0 {
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes // no swap
	}
	for name, q := range c.Resources.Limits {
		if size, ok := hugepage(name); ok {
			r.HugepageLimits = append(r.HugepageLimits, &cri.HugepageLimit{PageSize: size, Limit: uint64(q.Value())})
		}
	}
	return r
}

func hugepage(name corev1.ResourceName) (size string, ok bool) {
	const prefix = corev1.ResourceHugePagesPrefix
	if len(name) <= len(prefix) || string(name[:len(prefix)]) != prefix {
		return "", false
	}
	size = string(name[len(prefix):])
	if n := len(size); n > 1 && size[n-1] == 'i' {
		size = size[:n-1] + "B" // 2Mi is 2MB to the kernel
	}
	return size, true
}

// oomScore orders containers for the kernel's killer: guaranteed pods last, best effort first, others by how much
// of what they asked for memory is of all there is.
func oomScore(pod *corev1.Pod, c *corev1.Container) int64 {
	const guaranteed, besteffort = -997, 1000
	switch pod.Status.QOSClass {
	case corev1.PodQOSGuaranteed:
		return guaranteed
	case corev1.PodQOSBestEffort:
		return besteffort
	}
	total := totalMemory()
	if total == 0 {
		return 999
	}
	score := 1000 - 1000*c.Resources.Requests.Memory().Value()/total
	return min(max(score, 3), 999)
}

// totalMemory is the machine's memory in bytes; 0 when it can't be told.
func totalMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}

// cgroup is the pod's parent cgroup: by class of service, as upstream lays them out.
func (a *Agent) cgroup(pod *corev1.Pod) string {
	dir := "/" + a.cfg.CgroupDir
	switch pod.Status.QOSClass {
	case corev1.PodQOSBurstable:
		dir += "/burstable"
	case corev1.PodQOSBestEffort:
		dir += "/besteffort"
	}
	return dir + "/pod" + string(pod.UID)
}

// dropCgroup removes the pod's cgroup in every hierarchy. The runtime makes it and leaves it behind.
func (a *Agent) dropCgroup(pod *corev1.Pod) error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	dirs := []string{"/sys/fs/cgroup"}
	for _, r := range roots {
		dirs = append(dirs, filepath.Dir(r))
	}
	for _, d := range dirs {
		if err := os.Remove(filepath.Join(d, a.cgroup(pod))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the pod's cgroup: %w", err)
		}
	}
	return nil
}

// containerSecurity joins what the pod and the container say; the container's word wins.
func (a *Agent) containerSecurity(ctx context.Context, pod *corev1.Pod, c *corev1.Container, image string) (*cri.LinuxContainerSecurityContext, error) {
	p, k := pod.Spec.SecurityContext, c.SecurityContext
	if p == nil {
		p = &corev1.PodSecurityContext{}
	}
	if k == nil {
		k = &corev1.SecurityContext{}
	}
	s := &cri.LinuxContainerSecurityContext{NamespaceOptions: namespaces(pod), SupplementalGroups: groups(p),
		Privileged: is(k.Privileged), ReadonlyRootfs: is(k.ReadOnlyRootFilesystem),
		NoNewPrivs: k.AllowPrivilegeEscalation != nil && !*k.AllowPrivilegeEscalation && !is(k.Privileged),
		Seccomp:    seccomp(first(k.SeccompProfile, p.SeccompProfile)),
		Apparmor:   apparmor(first(k.AppArmorProfile, p.AppArmorProfile)), SelinuxOptions: selinux(first(k.SELinuxOptions, p.SELinuxOptions))}
	if k.Capabilities != nil {
		s.Capabilities = &cri.Capability{AddCapabilities: capabilities(k.Capabilities.Add), DropCapabilities: capabilities(k.Capabilities.Drop)}
	}
	if !s.Privileged && (k.ProcMount == nil || *k.ProcMount != corev1.UnmaskedProcMount) {
		s.MaskedPaths = []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
			"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"}
		s.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	return s, a.user(ctx, s, p, k, image)
}

// user sets who the container runs as, and refuses root where the spec does.
func (a *Agent) user(ctx context.Context, s *cri.LinuxContainerSecurityContext, p *corev1.PodSecurityContext, k *corev1.SecurityContext, image string) error {
	uid := first(k.RunAsUser, p.RunAsUser)
	gid := first(k.RunAsGroup, p.RunAsGroup)
	noRoot := is(first(k.RunAsNonRoot, p.RunAsNonRoot))
	if uid != nil {
		if noRoot && *uid == 0 {
			return errors.New("container's runAsUser breaks non-root policy")
		}
		s.RunAsUser = &cri.Int64Value{Value: *uid}
	} else {
		of, name, err := a.imageUser(ctx, image)
		switch {
		case err != nil:
			return err
		case noRoot && of == nil && name != "":
			return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root", name)
		case noRoot && (of == nil || *of == 0):
			return errors.New("container has runAsNonRoot and image will run as root")
		case of != nil:
			s.RunAsUser = &cri.Int64Value{Value: *of}
		default:
			s.RunAsUsername = name
		}
	}
	if gid != nil {
		if s.RunAsUser == nil && s.RunAsUsername == "" {
			s.RunAsUser = &cri.Int64Value{} // a group needs a user; the image's is root
		}
		s.RunAsGroup = &cri.Int64Value{Value: *gid}
	}
	return nil
}

// imageUser is the user that the image names: by number or by name.
func (a *Agent) imageUser(ctx context.Context, image string) (uid *int64, name string, err error) {
	res, err := a.cfg.Runtime.Images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
	if err != nil {
		return nil, "", fmt.Errorf("read the user of image %s: %w", image, err)
	}
	if res.Image == nil {
		return nil, "", fmt.Errorf("image %s is gone", image)
	}
	if res.Image.Uid != nil {
		return &res.Image.Uid.Value, "", nil
	}
	if n, err := strconv.ParseInt(res.Image.Username, 10, 64); err == nil {
		return &n, "", nil
	}
	return nil, res.Image.Username, nil
}

func is(b *bool) bool { return b != nil && *b }

// first is the first that is set.
func first[T any](list ...*T) *T {
	for _, p := range list {
		if p != nil {
			return p
		}
	}
	return nil
}

func capabilities(list []corev1.Capability) (out []string) {
	for _, c := range list {
		out = append(out, string(c))
	}
	slices.Sort(out)
	return out
}

func seccomp(p *corev1.SeccompProfile) *cri.SecurityProfile {
	switch {
	case p == nil || p.Type == corev1.SeccompProfileTypeUnconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: filepath.Join("/var/lib/kubelet/seccomp", *p.LocalhostProfile)}
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
}

func apparmor(p *corev1.AppArmorProfile) *cri.SecurityProfile {
	switch {
	case p == nil:
		return nil
	case p.Type == corev1.AppArmorProfileTypeUnconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	case p.Type == corev1.AppArmorProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile}
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
}

package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerSecurity joins what the pod and the container say; the container's word wins.
func (st *starter) containerSecurity(ctx context.Context, pod *corev1.Pod, c *corev1.Container,
	image string) (*cri.LinuxContainerSecurityContext, error) {
	p, k := pod.Spec.SecurityContext, c.SecurityContext
	if p == nil {
		p = &corev1.PodSecurityContext{}
	}
	if k == nil {
		k = &corev1.SecurityContext{}
	}
	s := &cri.LinuxContainerSecurityContext{NamespaceOptions: namespaces(pod), SupplementalGroups: groups(p),
		SupplementalGroupsPolicy: groupsPolicy(p),
		Privileged:               is(k.Privileged), ReadonlyRootfs: is(k.ReadOnlyRootFilesystem),
		NoNewPrivs:     k.AllowPrivilegeEscalation != nil && !*k.AllowPrivilegeEscalation && !is(k.Privileged),
		Seccomp:        seccomp(st.cfg.Dir, first(k.SeccompProfile, p.SeccompProfile)),
		Apparmor:       apparmor(first(k.AppArmorProfile, p.AppArmorProfile)),
		SelinuxOptions: labelOptions(first(k.SELinuxOptions, p.SELinuxOptions))}
	if k.Capabilities != nil {
		s.Capabilities = &cri.Capability{AddCapabilities: capabilities(k.Capabilities.Add), DropCapabilities: capabilities(k.Capabilities.Drop)}
	}
	if !s.Privileged && (k.ProcMount == nil || *k.ProcMount != corev1.UnmaskedProcMount) {
		s.MaskedPaths = []string{"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
			"/proc/timer_list",
			"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"}
		s.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	if err := st.user(ctx, s, p, k, image); errors.As(err, new(rootError)) {
		return s, fmt.Errorf("%w (pod: \"%s_%s(%s)\", container: %s)", err, pod.Name, pod.Namespace, pod.UID, c.Name)
	} else if err != nil {
		return s, err
	}
	return s, nil
}

// A rootError says that a container that must not be root's would be, or might.
type rootError string

func (e rootError) Error() string { return string(e) }

// user sets who the container runs as, and refuses root where the spec does.
func (st *starter) user(ctx context.Context, s *cri.LinuxContainerSecurityContext, p *corev1.PodSecurityContext,
	k *corev1.SecurityContext, image string) error {
	uid := first(k.RunAsUser, p.RunAsUser)
	gid := first(k.RunAsGroup, p.RunAsGroup)
	noRoot := is(first(k.RunAsNonRoot, p.RunAsNonRoot))
	if uid != nil {
		if noRoot && *uid == 0 {
			return rootError("container's runAsUser breaks non-root policy")
		}
		s.RunAsUser = &cri.Int64Value{Value: *uid}
	} else {
		of, name, err := st.imageUser(ctx, image)
		switch {
		case err != nil:
			return err
		case noRoot && of == nil && name != "":
			return rootError("container has runAsNonRoot and image has non-numeric user (" + name + "), cannot verify user is non-root")
		case noRoot && (of == nil || *of == 0):
			return rootError("container has runAsNonRoot and image will run as root")
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
func (st *starter) imageUser(ctx context.Context, image string) (uid *int64, name string, err error) {
	res, err := st.cfg.Runtime.Images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
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

func capabilities(list []corev1.Capability) (out []string) {
	for _, c := range list {
		out = append(out, string(c))
	}
	slices.Sort(out)
	return out
}

func seccomp(dir string, p *corev1.SeccompProfile) *cri.SecurityProfile {
	switch {
	case p == nil || p.Type == corev1.SeccompProfileTypeUnconfined:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	case p.Type == corev1.SeccompProfileTypeLocalhost && p.LocalhostProfile != nil:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: filepath.Join(dir, "seccomp",
			*p.LocalhostProfile)}
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

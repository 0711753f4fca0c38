package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runSandbox makes the pod's sandbox: its namespaces, network and cgroup.
func (a *Agent) runSandbox(ctx context.Context, w world) error {
	pod := w.pod
	if err := os.MkdirAll(a.logDir(pod), 0o755); err != nil {
		return fmt.Errorf("make the pod's log directory: %w", err)
	}
	try := uint32(0)
	if len(w.seen.sandboxes) > 0 {
		try = w.seen.sandboxes[0].try + 1
	}
	conf, err := a.sandboxConfig(pod, try)
	if err != nil {
		return err
	}
	_, err = a.cfg.Runtime.Containers.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: conf, RuntimeHandler: ""})
	if err != nil {
		a.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		return fmt.Errorf("create the sandbox of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (a *Agent) sandboxConfig(pod *corev1.Pod, try uint32) (*cri.PodSandboxConfig, error) {
	dns, err := a.dnsConfig(pod)
	if err != nil {
		return nil, err
	}
	conf := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: try},
		Hostname:     hostname(pod),
		LogDirectory: a.logDir(pod),
		DnsConfig:    dns,
		PortMappings: portMappings(pod),
		Labels:       a.podLabels(pod),
		Annotations:  pod.Annotations,
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: a.cgroup(pod), SecurityContext: sandboxSecurity(pod),
			Sysctls: sysctls(pod)},
	}
	if pod.Spec.HostNetwork {
		conf.Hostname, conf.PortMappings = "", nil // it shares the host's name
	}
	return conf, nil
}

func (a *Agent) podLabels(pod *corev1.Pod) map[string]string {
	labels := map[string]string{}
	for k, v := range pod.Labels {
		labels[k] = v
	}
	labels[labelPod], labels[labelNamespace], labels[labelUID] = pod.Name, pod.Namespace, string(pod.UID)
	return labels
}

func hostname(pod *corev1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	const limit = 63 // of a host name in the kernel
	if len(name) > limit {
		name = strings.TrimRight(name[:limit], "-.")
	}
	return name
}

func (a *Agent) logDir(pod *corev1.Pod) string {
	return filepath.Join(a.cfg.LogDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

func portMappings(pod *corev1.Pod) (list []*cri.PortMapping) {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort > 0 {
				list = append(list, &cri.PortMapping{Protocol: protocol(p.Protocol), ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP})
			}
		}
	}
	return list
}

func protocol(p corev1.Protocol) cri.Protocol {
	switch p {
	case corev1.ProtocolUDP:
		return cri.Protocol_UDP
	case corev1.ProtocolSCTP:
		return cri.Protocol_SCTP
	}
	return cri.Protocol_TCP
}

func sysctls(pod *corev1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	m := map[string]string{}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		m[s.Name] = s.Value
	}
	return m
}

func namespaces(pod *corev1.Pod) *cri.NamespaceOption {
	n := &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}
	if pod.Spec.HostNetwork {
		n.Network = cri.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		n.Ipc = cri.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		n.Pid = cri.NamespaceMode_NODE
	case pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		n.Pid = cri.NamespaceMode_POD
	}
	return n
}

func sandboxSecurity(pod *corev1.Pod) *cri.LinuxSandboxSecurityContext {
	s := &cri.LinuxSandboxSecurityContext{NamespaceOptions: namespaces(pod),
		Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if sc := list[i].SecurityContext; sc != nil && sc.Privileged != nil && *sc.Privileged {
				s.Privileged = true
			}
		}
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		s.SupplementalGroups = groups(sc)
		if sc.RunAsUser != nil {
			s.RunAsUser = &cri.Int64Value{Value: *sc.RunAsUser}
		}
		if sc.RunAsGroup != nil && sc.RunAsUser != nil {
			s.RunAsGroup = &cri.Int64Value{Value: *sc.RunAsGroup}
		}
		s.SelinuxOptions = selinux(sc.SELinuxOptions)
	}
	return s
}

func groups(sc *corev1.PodSecurityContext) (list []int64) {
	list = append(list, sc.SupplementalGroups...)
	if sc.FSGroup != nil && !slices.Contains(list, *sc.FSGroup) {
		list = append(list, *sc.FSGroup)
	}
	return list
}

func selinux(o *corev1.SELinuxOptions) *cri.SELinuxOption {
	if o == nil {
		return nil
	}
	return &cri.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// maxSearch bounds the search list, as the API does.
const maxSearch = 32

// dnsConfig is what the pod's /etc/resolv.conf says.
func (a *Agent) dnsConfig(pod *corev1.Pod) (*cri.DNSConfig, error) {
	conf := &cri.DNSConfig{}
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst && pod.Spec.HostNetwork {
		policy = corev1.DNSDefault
	}
	host, err := hostDNS("/etc/resolv.conf")
	if err != nil {
		return nil, err
	}
	switch {
	case policy == corev1.DNSNone:
	case policy == corev1.DNSDefault || len(a.cfg.DNS) == 0:
		conf = host
	default:
		for _, s := range a.cfg.DNS {
			conf.Servers = append(conf.Servers, s.String())
		}
		d := a.cfg.Domain
		conf.Searches = append([]string{pod.Namespace + ".svc." + d, "svc." + d, d}, host.Searches...)
		conf.Options = []string{"ndots:5"}
	}
	if more := pod.Spec.DNSConfig; more != nil {
		conf.Servers = merge(conf.Servers, more.Nameservers)
		conf.Searches = merge(conf.Searches, more.Searches)
		for _, o := range more.Options {
			conf.Options = setOption(conf.Options, o)
		}
	}
	conf.Searches = conf.Searches[:min(len(conf.Searches), maxSearch)]
	return conf, nil
}

func merge(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// setOption adds an option, or replaces the one of the same name.
func setOption(list []string, o corev1.PodDNSConfigOption) []string {
	text := o.Name
	if o.Value != nil && *o.Value != "" {
		text += ":" + *o.Value
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		name, _, _ := strings.Cut(s, ":")
		return name == o.Name
	})
	return append(list, text)
}

// hostDNS reads a resolv.conf. A missing one means a host without DNS.
func hostDNS(path string) (*cri.DNSConfig, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return &cri.DNSConfig{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's DNS configuration: %w", err)
	}
	var conf cri.DNSConfig
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if _, err := netip.ParseAddr(f[1]); err == nil {
				conf.Servers = append(conf.Servers, f[1])
			}
		case "search":
			conf.Searches = f[1:]
		case "options":
			conf.Options = f[1:]
		}
	}
	return &conf, nil
}

func (a *Agent) stopSandbox(ctx context.Context, id string) error {
	_, err := a.cfg.Runtime.Containers.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	if err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	return nil
}

// removeAll removes containers that have stopped, and sandboxes.
func (a *Agent) removeAll(ctx context.Context, seen sight) error {
	rt := a.cfg.Runtime.Containers
	for i := range seen.containers {
		if err := a.removeContainer(ctx, seen.containers[i].id); err != nil {
			return err
		}
	}
	for _, b := range seen.sandboxes {
		if err := a.stopSandbox(ctx, b.id); err != nil {
			return err
		}
		if _, err := rt.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: b.id}); err != nil {
			return fmt.Errorf("remove sandbox %s: %w", b.id, err)
		}
	}
	return nil
}

func (a *Agent) removeContainer(ctx context.Context, id string) error {
	if _, err := a.cfg.Runtime.Containers.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

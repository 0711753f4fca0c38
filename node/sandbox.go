package node

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// sandboxes make and remove the pods' sandboxes, and what CRI counts to them: host name, DNS, ports, sysctls.
type sandboxes struct {
	*common
	users   *userRanges
	stopped sync.Map // ids of sandboxes that this agent stopped and has not removed: each further stop runs the network plugins again
}

// runSandbox makes the pod's sandbox: its namespaces, network and cgroup.
func (sb *sandboxes) runSandbox(ctx context.Context, w world) error {
	pod := w.pod
	if err := sb.makeSandbox(ctx, pod, w.seen.nextTry()); err != nil {
		sb.event(pod, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		return fmt.Errorf("create the sandbox of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (sb *sandboxes) makeSandbox(ctx context.Context, pod *corev1.Pod, try uint32) error {
	if err := os.MkdirAll(sb.logDir(pod), 0o755); err != nil {
		return fmt.Errorf("make the pod's log directory: %w", err)
	}
	if err := sb.cgroups.Set(sb.cgroup(pod), sb.terms.pod(pod)); err != nil {
		return fmt.Errorf("limit the pod's cgroup: %w", err)
	}
	conf, err := sb.sandboxConfig(pod, try)
	if err != nil {
		return err
	}
	handler, err := sb.handler(ctx, pod)
	if err != nil {
		return err
	}
	if err := sb.users.supported(ctx, pod, handler); err != nil {
		return err
	}
	began := time.Now()
	_, err = sb.cfg.Runtime.Containers.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: conf, RuntimeHandler: handler})
	sb.meter.Box(handler, time.Since(began))
	return err
}

// handler is the runtime's name for the RuntimeClass of the pod; "": the one that it has by default.
func (sb *sandboxes) handler(ctx context.Context, pod *corev1.Pod) (string, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return "", nil
	}
	class, err := client.Find(ctx, sb.cfg.Client, kinds.RuntimeClasses, "", *pod.Spec.RuntimeClassName)
	if err != nil {
		return "", fmt.Errorf("get RuntimeHandler for pod: %w", err)
	}
	return class.Handler, nil
}

func (sb *sandboxes) sandboxConfig(pod *corev1.Pod, try uint32) (*cri.PodSandboxConfig, error) {
	dns, err := sb.dnsConfig(pod)
	if err != nil {
		return nil, err
	}
	host, err := sb.fullHostname(pod)
	if err != nil {
		return nil, err
	}
	security := sandboxSecurity(pod)
	if security.NamespaceOptions.UsernsOptions, err = sb.users.options(pod); err != nil {
		return nil, err
	}
	conf := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: try},
		Hostname:     host,
		LogDirectory: sb.logDir(pod),
		DnsConfig:    dns,
		PortMappings: portMappings(pod),
		Labels:       sb.podLabels(pod),
		Annotations:  pod.Annotations,
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: sb.cgroups.Parent(sb.cgroup(pod)), SecurityContext: security,
			Sysctls: sysctls(pod)},
	}
	if pod.Spec.HostNetwork {
		conf.Hostname, conf.PortMappings = "", nil // it shares the host's name
	}
	return conf, nil
}

func (sb *sandboxes) podLabels(pod *corev1.Pod) map[string]string {
	labels := map[string]string{}
	for k, v := range pod.Labels {
		labels[k] = v
	}
	labels[labelPod], labels[labelNamespace], labels[labelUID] = pod.Name, pod.Namespace, string(pod.UID)
	return labels
}

// The lengths of a pod's host name, in bytes: of its own, and with its domain, of which the kernel takes one more.
const (
	maxHostname     = 63
	maxFullHostname = 64
)

// fullHostname is the name that the pod's programs see: with the pod's domain, where the pod asks for it.
func (sb *sandboxes) fullHostname(pod *corev1.Pod) (string, error) {
	name := hostname(pod)
	if pod.Spec.HostnameOverride != nil || !is(pod.Spec.SetHostnameAsFQDN) || pod.Spec.Subdomain == "" {
		return name, nil
	}
	name += "." + pod.Spec.Subdomain + "." + pod.Namespace + ".svc." + sb.cfg.Domain
	if len(name) > maxFullHostname {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long "+
			"(%d characters is the max, %d characters requested)", name, maxFullHostname, len(name))
	}
	return name, nil
}

func hostname(pod *corev1.Pod) string {
	if pod.Spec.HostnameOverride != nil {
		return *pod.Spec.HostnameOverride
	}
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

func portMappings(pod *corev1.Pod) (list []*cri.PortMapping) {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort > 0 {
				list = append(list, &cri.PortMapping{Protocol: protocol(p.Protocol), ContainerPort: p.ContainerPort, HostPort: p.HostPort,
					HostIp: p.HostIP})
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
		m[dotted(s.Name)] = s.Value
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
		s.SupplementalGroups, s.SupplementalGroupsPolicy = groups(sc), groupsPolicy(sc)
		if sc.RunAsUser != nil {
			s.RunAsUser = &cri.Int64Value{Value: *sc.RunAsUser}
		}
		if sc.RunAsGroup != nil && sc.RunAsUser != nil {
			s.RunAsGroup = &cri.Int64Value{Value: *sc.RunAsGroup}
		}
		s.SelinuxOptions = labelOptions(sc.SELinuxOptions)
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

// groupsPolicy says whether the groups that the image gives its user count beside those of the pod. The runtime adds them unless told.
func groupsPolicy(sc *corev1.PodSecurityContext) cri.SupplementalGroupsPolicy {
	if strictGroups(sc) {
		return cri.SupplementalGroupsPolicy_Strict
	}
	return cri.SupplementalGroupsPolicy_Merge
}

func strictGroups(sc *corev1.PodSecurityContext) bool {
	return sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict
}

func labelOptions(o *corev1.SELinuxOptions) *cri.SELinuxOption {
	if o == nil {
		return nil
	}
	return &cri.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func (sb *sandboxes) stopSandbox(ctx context.Context, id string) error {
	_, err := sb.cfg.Runtime.Containers.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	if err != nil && !absent(err) {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	sb.stopped.Store(id, true)
	return nil
}

// removeAll removes containers that have stopped, and sandboxes.
func (sb *sandboxes) removeAll(ctx context.Context, seen runtimeState) error {
	for i := range seen.containers {
		if err := sb.removeContainer(ctx, seen.containers[i].id); err != nil {
			return err
		}
	}
	for _, b := range seen.sandboxes {
		if err := sb.removeSandbox(ctx, b.id); err != nil {
			return err
		}
	}
	return nil
}

// removeSandbox removes a sandbox, with what is left of its network.
func (sb *sandboxes) removeSandbox(ctx context.Context, id string) error {
	if _, done := sb.stopped.Load(id); !done {
		if err := sb.stopSandbox(ctx, id); err != nil {
			return err
		}
	}
	_, err := sb.cfg.Runtime.Containers.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	if err != nil && !absent(err) {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	sb.stopped.Delete(id)
	return nil
}

func (sb *sandboxes) removeContainer(ctx context.Context, id string) error {
	_, err := sb.cfg.Runtime.Containers.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id})
	if err != nil && !absent(err) {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

// absent says that the runtime has no such thing, as a stop or a removal wants it. A list may still name it: the runtime remembers
// a container whose own record somebody removed.
func absent(err error) bool { return status.Code(err) == codes.NotFound }

package node

import (
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// The predicates of a node's admission, beside resources. Each says why this node does not take the pod, or nil. Reasons and messages
// are the kubelet's: controllers and people match them.

// safeSysctls are kernel parameters that only touch the pod that sets them, and can't be used against others (the API documentation of
// sysctls lists them). All others are for an administrator to allow.
var safeSysctls = []string{"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
	"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}

// forbiddenSysctl refuses kernel parameters that are not allowed here, and those that would be the host's. allowed holds names beyond
// the safe ones, or beginnings of names that end with a star.
func forbiddenSysctl(pod *corev1.Pod, allowed []string) *Rejection {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	no := func(format, name string) *Rejection {
		return &Rejection{"SysctlForbidden", "forbidden sysctl: " + fmt.Sprintf(format, name)}
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := dotted(s.Name)
		switch {
		case !slices.Contains(safeSysctls, name) && !allowedSysctl(name, allowed):
			return no("%q not allowlisted", s.Name)
		case pod.Spec.HostNetwork && strings.HasPrefix(name, "net."):
			return no("%q not allowed with host net enabled", s.Name)
		case pod.Spec.HostIPC && (strings.HasPrefix(name, "kernel.") || strings.HasPrefix(name, "fs.mqueue.")):
			return no("%q not allowed with host ipc enabled", s.Name)
		}
	}
	return nil
}

// dotted is the parameter's name with dots between its parts. If its first separator is a slash, slashes separate the parts, and dots
// belong to their names, as in sysctl(8).
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

// ownSysctl says that each pod has the parameter for itself.
func ownSysctl(name string) bool {
	return slices.ContainsFunc([]string{"kernel.shm", "kernel.msg", "fs.mqueue.", "net."},
		func(p string) bool { return strings.HasPrefix(name, p) }) || name == "kernel.sem"
}

// CheckSysctls refuses what an administrator can't allow pods to set: parameters that are the whole machine's, and stars but at the end.
func CheckSysctls(allowed []string) error {
	for _, name := range allowed {
		if !ownSysctl(name) || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return fmt.Errorf("allowedUnsafeSysctls: pods can't have %q for themselves: use kernel.shm*, kernel.msg*, kernel.sem, "+
				"fs.mqueue.* and net.*, or what they stand for", name)
		}
	}
	return nil
}

// allowedSysctl says that the administrator allows the parameter. Only those that each pod has for itself can be.
func allowedSysctl(name string, allowed []string) bool {
	return ownSysctl(name) && slices.ContainsFunc(allowed, func(a string) bool {
		begin, any := strings.CutSuffix(a, "*")
		return a == name || any && strings.HasPrefix(name, begin)
	})
}

// takenPort refuses a pod whose ports on the host another pod has.
func takenPort(pod *corev1.Pod, others []*corev1.Pod) *Rejection {
	want := podspec.HostPorts(pod)
	for _, o := range others {
		for _, have := range podspec.HostPorts(o) {
			if slices.ContainsFunc(want, func(p corev1.ContainerPort) bool { return clash(p, have) }) {
				return &Rejection{"NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
			}
		}
	}
	return nil
}

func clash(a, b corev1.ContainerPort) bool {
	all := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return a.HostPort == b.HostPort && protocol(a.Protocol) == protocol(b.Protocol) && (a.HostIP == b.HostIP || all(a.HostIP) ||
		all(b.HostIP))
}

// unwanted refuses a pod that does not want this node, or that the node repels.
func unwanted(pod *corev1.Pod, node *corev1.Node) *Rejection {
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
		return &Rejection{"NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	if _, static := pod.Annotations[mirrorNote]; static {
		return nil
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectNoExecute && !tolerates(pod, t) {
			return &Rejection{"TaintToleration", "Predicate TaintToleration failed: node(s) had untolerated taint(s)"}
		}
	}
	return nil
}

func tolerates(pod *corev1.Pod, t *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
		switch {
		case o.Effect != "" && o.Effect != t.Effect, o.Key != "" && o.Key != t.Key:
			return false
		case o.Operator == corev1.TolerationOpExists:
			return true
		}
		return o.Key != "" && (o.Operator == "" || o.Operator == corev1.TolerationOpEqual) && o.Value == t.Value
	})
}

// overgrouped refuses a pod that wants no groups but its own, where the runtime would give it those of the image too (KEP-3619).
func overgrouped(pod *corev1.Pod, node *corev1.Node) *Rejection {
	f := node.Status.Features
	if !strictGroups(pod.Spec.SecurityContext) || f != nil && f.SupplementalGroupsPolicy != nil && *f.SupplementalGroupsPolicy {
		return nil
	}
	return &Rejection{"SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"}
}

// foreign refuses a pod that is made for another operating system.
func foreign(pod *corev1.Pod) *Rejection {
	if pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux {
		return &Rejection{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if os, ok := pod.Labels[corev1.LabelOSStable]; ok && os != string(corev1.Linux) {
		return &Rejection{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	return nil
}

// appArmorProfiles is the kernel's list of the profiles that are loaded.
const appArmorProfiles = "/sys/kernel/security/apparmor/profiles"

// unarmored refuses a pod that asks for a protection by AppArmor that this machine does not give. profiles is the kernel's list of them.
func unarmored(pod *corev1.Pod, profiles string) *Rejection {
	var want []*corev1.AppArmorProfile
	if sc := pod.Spec.SecurityContext; sc != nil {
		want = append(want, sc.AppArmorProfile)
	}
	for _, l := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range l {
			if sc := l[i].SecurityContext; sc != nil {
				want = append(want, sc.AppArmorProfile)
			}
		}
	}
	for _, p := range want {
		if p == nil || p.Type == corev1.AppArmorProfileTypeUnconfined {
			continue
		}
		loaded, err := os.ReadFile(profiles)
		switch {
		case err != nil:
			return &Rejection{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
		case p.LocalhostProfile != nil && !strings.Contains("\n"+string(loaded), "\n"+*p.LocalhostProfile+" ("):
			return &Rejection{"AppArmor", fmt.Sprintf("Cannot enforce AppArmor: profile %q is not loaded", *p.LocalhostProfile)}
		}
	}
	return nil
}

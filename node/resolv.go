package node

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Bounds of a resolv.conf: the C library reads no more name servers; the others are the API's.
const (
	maxServers     = 3
	maxSearch      = 32
	maxSearchChars = 2048
)

// dnsConfig makes the pod's /etc/resolv.conf from its dnsPolicy and dnsConfig. An event tells what had to be left out.
func (sb *sandboxes) dnsConfig(pod *corev1.Pod) (*cri.DNSConfig, error) {
	host, err := hostDNS("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
	if err != nil {
		return nil, err
	}
	servers := sb.clusterDNS()
	policy := dnsPolicy(pod)
	if policy == corev1.DNSClusterFirst && len(servers) == 0 {
		sb.event(pod, "", corev1.EventTypeWarning, "MissingClusterDNS",
			"pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. "+
				"Falling back to %q policy.", pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")", policy, corev1.DNSDefault)
		policy = corev1.DNSDefault
	}
	conf := resolvConf(pod, policy, host, servers, sb.cfg.Domain)
	for _, warning := range cutDNS(conf) {
		sb.event(pod, "", corev1.EventTypeWarning, "DNSConfigForming", "%s", warning)
	}
	return conf, nil
}

// clusterDNS are the addresses of the cluster DNS: configured ones, else those of the Service that everybody knows it by.
func (sb *sandboxes) clusterDNS() []netip.Addr {
	if len(sb.cfg.DNS) > 0 {
		return sb.cfg.DNS
	}
	s := resource.Get(sb.cfg.Client.Read(), kinds.Services, metav1.NamespaceSystem, "kube-dns")
	if s == nil {
		return nil
	}
	var list []netip.Addr
	for _, text := range s.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			list = append(list, ip)
		}
	}
	return list
}

// dnsPolicy is the pod's policy, with ClusterFirstWithHostNet resolved.
func dnsPolicy(pod *corev1.Pod) corev1.DNSPolicy {
	switch p := pod.Spec.DNSPolicy; {
	case p == corev1.DNSClusterFirstWithHostNet:
		return corev1.DNSClusterFirst
	case p == corev1.DNSClusterFirst && pod.Spec.HostNetwork:
		return corev1.DNSDefault
	default:
		return p
	}
}

// resolvConf is pure: what the pod's /etc/resolv.conf says, before it is cut to its bounds.
func resolvConf(pod *corev1.Pod, policy corev1.DNSPolicy, host *cri.DNSConfig, servers []netip.Addr, domain string) *cri.DNSConfig {
	conf := &cri.DNSConfig{}
	switch policy {
	case corev1.DNSNone:
	case corev1.DNSDefault:
		conf.Servers, conf.Searches, conf.Options = host.Servers, host.Searches, host.Options
	default:
		for _, s := range servers {
			conf.Servers = append(conf.Servers, s.String())
		}
		conf.Searches = merge([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, host.Searches)
		conf.Options = []string{"ndots:5"}
	}
	if more := pod.Spec.DNSConfig; more != nil {
		conf.Servers = merge(conf.Servers, more.Nameservers)
		conf.Searches = merge(conf.Searches, more.Searches)
		for _, o := range more.Options {
			conf.Options = setOption(conf.Options, o)
		}
	}
	return conf
}

// cutDNS cuts the configuration to what resolvers read, and says what was left out.
func cutDNS(conf *cri.DNSConfig) (warnings []string) {
	if len(conf.Servers) > maxServers {
		conf.Servers = conf.Servers[:maxServers]
		warnings = append(warnings, fmt.Sprintf(
			"Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: %s",
			strings.Join(conf.Servers, " ")))
	}
	keep := min(len(conf.Searches), maxSearch)
	for keep > 0 && len(strings.Join(conf.Searches[:keep], " ")) > maxSearchChars {
		keep--
	}
	if keep < len(conf.Searches) {
		conf.Searches = conf.Searches[:keep]
		warnings = append(warnings, fmt.Sprintf(
			"Search Line limits were exceeded, some search paths have been omitted, the applied search line is: %s",
			strings.Join(conf.Searches, " ")))
	}
	return warnings
}

func merge(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(slices.Clip(list), s)
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

// hostDNS reads the host's resolv.conf. A missing one means a host without DNS. One that names only servers on the loopback, as
// systemd-resolved's stub, is of no use in a pod: then the other file counts.
func hostDNS(path, behind string) (*cri.DNSConfig, error) {
	conf, err := readResolv(path)
	if err != nil {
		return nil, err
	}
	loopback := func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.IsLoopback() }
	if len(conf.Servers) > 0 && !slices.ContainsFunc(conf.Servers, func(s string) bool { return !loopback(s) }) {
		if real, err := readResolv(behind); err == nil && len(real.Servers) > 0 {
			return real, nil
		}
	}
	return conf, nil
}

func readResolv(path string) (*cri.DNSConfig, error) {
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
			conf.Searches = nil
			for _, s := range f[1:] {
				if s = strings.TrimSuffix(s, "."); s != "" {
					conf.Searches = append(conf.Searches, s)
				}
			}
		case "options":
			conf.Options = f[1:]
		}
	}
	return &conf, nil
}

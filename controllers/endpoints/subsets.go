package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/controllers/internal/backends"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
)

// most is how many addresses an Endpoints object holds.
const most = 1000

// The label that marks the objects that this loop owns.
const (
	managedKey = "endpoints.kubernetes.io/managed-by"
	managedBy  = "endpoint-controller"
)

// subsets groups the pods by the ports that they serve. over says that some had to be left out.
func subsets(s *corev1.Service, list []*corev1.Pod) (out []corev1.EndpointSubset, over bool) {
	byPorts := map[string]*corev1.EndpointSubset{}
	left := most
	// Ready pods come first when there is not room for all.
	slices.SortStableFunc(list, func(a, b *corev1.Pod) int { return rank(s, a) - rank(s, b) })
	for _, p := range list {
		ip := address(s, p)
		if ip == "" || p.DeletionTimestamp != nil && !s.Spec.PublishNotReadyAddresses {
			continue
		}
		ports := portsOf(s, p)
		if len(ports) == 0 && len(s.Spec.Ports) > 0 {
			continue
		}
		if left == 0 {
			over = true
			break
		}
		left--
		key := portsKey(ports)
		if byPorts[key] == nil {
			byPorts[key] = &corev1.EndpointSubset{Ports: ports}
		}
		add(byPorts[key], s, p, ip)
	}
	for _, key := range slices.Sorted(maps.Keys(byPorts)) {
		sub := byPorts[key]
		slices.SortFunc(sub.Addresses, byIP)
		slices.SortFunc(sub.NotReadyAddresses, byIP)
		out = append(out, *sub)
	}
	return out, over
}

func rank(s *corev1.Service, p *corev1.Pod) int {
	if counts(s, p) {
		return 0
	}
	return 1
}

// counts says whether the pod is listed as ready.
func counts(s *corev1.Service, p *corev1.Pod) bool {
	return s.Spec.PublishNotReadyAddresses || pods.Ready(p)
}

func add(sub *corev1.EndpointSubset, s *corev1.Service, p *corev1.Pod, ip string) {
	a := corev1.EndpointAddress{IP: ip, Hostname: backends.Hostname(p, s),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
	if p.Spec.NodeName != "" {
		a.NodeName = &p.Spec.NodeName
	}
	if counts(s, p) {
		sub.Addresses = append(sub.Addresses, a)
	} else {
		sub.NotReadyAddresses = append(sub.NotReadyAddresses, a)
	}
}

// address is the pod's address in the service's first family.
func address(s *corev1.Service, p *corev1.Pod) string {
	six := strings.Contains(s.Spec.ClusterIP, ":")
	if len(s.Spec.IPFamilies) > 0 {
		six = s.Spec.IPFamilies[0] == corev1.IPv6Protocol
	}
	for _, ip := range backends.IPs(p) {
		if strings.Contains(ip, ":") == six {
			return ip
		}
	}
	return ""
}

func portsOf(s *corev1.Service, p *corev1.Pod) (list []corev1.EndpointPort) {
	for i := range s.Spec.Ports {
		sp := &s.Spec.Ports[i]
		if n, ok := backends.Port(p, sp); ok {
			list = append(list, corev1.EndpointPort{Name: sp.Name, Port: n, Protocol: sp.Protocol, AppProtocol: sp.AppProtocol})
		}
	}
	slices.SortFunc(list, func(a, b corev1.EndpointPort) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port), strings.Compare(string(a.Protocol), string(b.Protocol)))
	})
	return list
}

func portsKey(list []corev1.EndpointPort) (key string) {
	for _, p := range list {
		key += fmt.Sprintf("%s/%d/%s ", p.Name, p.Port, p.Protocol)
	}
	return key
}

func byIP(a, b corev1.EndpointAddress) int {
	return cmp.Or(strings.Compare(a.IP, b.IP), strings.Compare(string(a.TargetRef.UID), string(b.TargetRef.UID)))
}

func labelsOf(s *corev1.Service) map[string]string {
	l := maps.Clone(s.Labels)
	if l == nil {
		l = map[string]string{}
	}
	delete(l, corev1.IsHeadlessService)
	if backends.Headless(s) {
		l[corev1.IsHeadlessService] = ""
	}
	l[managedKey] = managedBy
	return l
}

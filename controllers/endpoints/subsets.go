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
	"github.com/kloop-dev/kloop/internal/coldsort"
)

// most is the number of addresses that an Endpoints object holds.
const most = 1000

// The label that marks the objects that this loop owns.
const (
	managedKey = "endpoints.kubernetes.io/managed-by"
	managedBy  = "endpoint-controller"
)

// An offer is a port and the pods that serve it.
type offer struct {
	port *corev1.EndpointPort // nil: the service has none
	pods []*corev1.Pod
}

// subsets groups the ports by the pods that serve them: all ports that the same pods serve are one subset. over says
// that some pods had to be left out.
func subsets(s *corev1.Service, list []*corev1.Pod) (out []corev1.EndpointSubset, over bool) {
	offers, over := offersOf(s, list)
	at := map[string]int{}
	for _, o := range offers {
		key := podsKey(o.pods)
		i, known := at[key]
		if !known {
			i, at[key] = len(out), len(out)
			out = append(out, corev1.EndpointSubset{})
			for _, p := range o.pods {
				add(&out[i], s, p, address(s, p))
			}
			coldsort.Func(out[i].Addresses, byIP)
			coldsort.Func(out[i].NotReadyAddresses, byIP)
		}
		if o.port != nil {
			out[i].Ports = append(out[i].Ports, *o.port)
		}
	}
	for i := range out {
		coldsort.Func(out[i].Ports, byPort)
	}
	coldsort.StableFunc(out, func(a, b corev1.EndpointSubset) int { return strings.Compare(portsKey(a.Ports), portsKey(b.Ports)) })
	return out, over
}

// offersOf lists what the pods serve, ready pods first when there is not room for all.
func offersOf(s *corev1.Service, list []*corev1.Pod) (offers []*offer, over bool) {
	at := map[corev1.EndpointPort]*offer{}
	left := most
	slices.SortStableFunc(list, func(a, b *corev1.Pod) int { return rank(s, a) - rank(s, b) })
	for _, p := range list {
		if address(s, p) == "" || p.DeletionTimestamp != nil && !s.Spec.PublishNotReadyAddresses {
			continue
		}
		ports := portsOf(s, p)
		switch {
		case len(s.Spec.Ports) == 0:
			ports = []corev1.EndpointPort{{}}
		case len(ports) == 0:
			continue
		}
		if left--; left < 0 {
			return offers, true
		}
		for i := range ports {
			key := ports[i]
			key.AppProtocol = nil // a pointer; ports of one service that are alike otherwise have the same
			if at[key] == nil {
				at[key] = &offer{}
				if len(s.Spec.Ports) > 0 {
					at[key].port = &ports[i]
				}
				offers = append(offers, at[key])
			}
			at[key].pods = append(at[key].pods, p)
		}
	}
	return offers, false
}

// podsKey is equal for equal lists of pods.
func podsKey(list []*corev1.Pod) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(string(p.UID) + " ")
	}
	return b.String()
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
	return list
}

func byPort(a, b corev1.EndpointPort) int { return strings.Compare(orderOf(&a), orderOf(&b)) }

// orderOf gives a port its place among others: by upstream's hash.
func orderOf(p *corev1.EndpointPort) string {
	return backends.PortHash("(v1.EndpointPort){Name:(string)%s Port:(int32)%d Protocol:(v1.Protocol)%s AppProtocol:(*string)%s}",
		p.Name, p.Port, p.Protocol, backends.OrNil(p.AppProtocol))
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

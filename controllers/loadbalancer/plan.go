package loadbalancer

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// A world is all that the plan goes by.
type world struct {
	mode     Mode
	services []*corev1.Service // of type LoadBalancer and ours to serve, in the order of sort
	former   []*corev1.Service // ours once
	ends     map[*corev1.Service]backends
	nodes    []*corev1.Node // by name

	pools   []*pool
	adverts []*advert
	spaces  map[string]labels.Set // labels of namespaces

	peers    []*peer                                    // by name
	sessions map[string]map[string]wellknown.BGPSession // by node and the peer's name, as the nodes tell
}

// backends are the endpoints of a service that serve.
type backends struct {
	any bool
	on  []string // names of nodes, sorted
}

// sort puts first what has addresses, then what is older: nobody loses what it has to a newcomer.
func (w *world) sort() {
	has := func(s *corev1.Service) int { return min(1, len(s.Status.LoadBalancer.Ingress)) }
	slices.SortFunc(w.services, func(a, b *corev1.Service) int {
		return cmp.Or(cmp.Compare(has(b), has(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(w.nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// A verdict is a condition to be.
type verdict struct {
	ok           bool
	reason, says string
}

// A decision says what becomes of one service.
type decision struct {
	service   *corev1.Service
	drop      bool // what we said of it goes
	ips       []string
	pool      *pool // that they are from; nil: none
	address   verdict
	announced verdict // reason "": nothing is announced
}

// ingress are the addresses as the status has them.
func (d decision) ingress() (list []corev1.LoadBalancerIngress) {
	vip := corev1.LoadBalancerIPModeVIP
	for _, ip := range d.ips {
		list = append(list, corev1.LoadBalancerIngress{IP: ip, IPMode: &vip})
	}
	return list
}

// plan is pure: what each service is to have, which nodes may answer for its addresses, and what routers learn.
func plan(w *world) (list []decision, announced []announcement, spoken *book) {
	for _, s := range w.former {
		list = append(list, decision{service: s, drop: true})
	}
	switch w.mode {
	case Nodes, "":
		list = append(list, onNodes(w)...)
	case Pools:
		given := fromPools(w)
		announced, spoken = announce(w, given)
		list = append(list, given...)
	default: // somebody else gives addresses: what we said is wrong now
		for _, s := range w.services {
			if ours(s) {
				list = append(list, decision{service: s, drop: true})
			}
		}
	}
	return list, announced, spoken
}

// A port is taken by one service or program at one address.
type port struct {
	proto  corev1.Protocol
	number int32
}

func portsOf(s *corev1.Service) (list []port) {
	for _, p := range s.Spec.Ports {
		list = append(list, port{cmp.Or(p.Protocol, corev1.ProtocolTCP), p.Port})
	}
	return list
}

func localOnly(s *corev1.Service) bool {
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// families are the address families of the service, in its order.
func families(s *corev1.Service) (list []bool) {
	for _, f := range s.Spec.IPFamilies {
		list = append(list, f == corev1.IPv6Protocol)
	}
	if len(list) == 0 {
		a, err := netip.ParseAddr(s.Spec.ClusterIP)
		list = []bool{err == nil && a.Is6()}
	}
	return list
}

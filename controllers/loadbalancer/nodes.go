package loadbalancer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// onNodes gives every service the addresses of the nodes that have its ports free; of several services that want one port the
// one that has it keeps it, else the oldest gets it. The service proxies of all nodes catch what goes there.
func onNodes(w *world) (list []decision) {
	if len(w.services) == 0 {
		return nil // nobody asks what listens on each node
	}
	taken := map[string]map[port]string{} // by node: the ports, and what has them
	for _, n := range w.nodes {
		taken[n.Name] = listening(n)
	}
	for _, s := range w.services {
		d := decision{service: s}
		chosen, refused := pick(w, s, taken)
		for _, n := range chosen {
			for _, p := range portsOf(s) {
				taken[n.Name][p] = "service " + s.Namespace + "/" + s.Name
			}
		}
		d.ips = addresses(chosen, families(s))
		switch {
		case len(d.ips) > 0:
			d.address = verdict{true, wellknown.LBNodeAddresses, fmt.Sprintf("has the addresses of %d of %d nodes", len(chosen), len(w.nodes))}
		case len(chosen) > 0:
			d.address = verdict{false, wellknown.LBNoNode, "no node has an address of the service's family"}
		default:
			d.address = verdict{false, refused.reason(), refused.text(len(w.nodes))}
		}
		list = append(list, d)
	}
	return list
}

// refusals count nodes by why they don't qualify.
type refusals map[string]int

const (
	noEndpoint   = "without an endpoint of the service, and externalTrafficPolicy is Local"
	portTakenFor = "where "
)

// pick returns the nodes that qualify for a service.
func pick(w *world, s *corev1.Service, taken map[string]map[port]string) (chosen []*corev1.Node, refused refusals) {
	refused = refusals{}
	for _, n := range w.nodes {
		why := refusal(n)
		if why == "" && localOnly(s) && !slices.Contains(w.ends[s].on, n.Name) {
			why = noEndpoint
		}
		for _, p := range portsOf(s) {
			if by := taken[n.Name][p]; why == "" && by != "" {
				why = fmt.Sprintf("%sport %d/%s belongs to %s", portTakenFor, p.number, p.proto, by)
			}
		}
		if why != "" {
			refused[why]++
			continue
		}
		chosen = append(chosen, n)
	}
	return chosen, refused
}

// reason is the reason of most weight: what is nearest to success.
func (r refusals) reason() string {
	for why := range r {
		if strings.HasPrefix(why, portTakenFor) {
			return wellknown.LBPortsTaken
		}
	}
	if r[noEndpoint] > 0 {
		return wellknown.LBNoLocalEndpoint
	}
	return wellknown.LBNoNode
}

// nodes counts those that were refused.
func (r refusals) nodes() (n int) {
	for _, some := range r {
		n += some
	}
	return n
}

func (r refusals) text(all int) string {
	if all == 0 {
		return "there is no node"
	}
	var words []string
	for _, why := range slices.Sorted(maps.Keys(r)) {
		words = append(words, fmt.Sprintf("%d %s", r[why], why))
	}
	return fmt.Sprintf("none of %d nodes qualifies: %s", all, strings.Join(words, "; "))
}

// refusal says why a node gives its addresses to no service; "": it does.
func refusal(n *corev1.Node) string {
	if why := unfit(n); why != "" {
		return why
	}
	if _, ok := n.Annotations[wellknown.TakenPortsAnnotation]; !ok {
		return "without an agent that serves load balancers"
	}
	return ""
}

// barred says why traffic from outside must not be led to a node; "": it may, if it is alive.
func barred(n *corev1.Node) string {
	if n.DeletionTimestamp != nil {
		return "being deleted"
	}
	if _, off := n.Labels[corev1.LabelNodeExcludeBalancers]; off {
		return "with the label " + corev1.LabelNodeExcludeBalancers
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue {
			return "whose network is unavailable"
		}
	}
	return ""
}

// unfit says why no traffic from outside is to be led to a node; "": it may.
func unfit(n *corev1.Node) string {
	if why := barred(n); why != "" {
		return why
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return "not ready"
}

// listening are the ports that programs of the node have, by its own account.
func listening(n *corev1.Node) map[port]string {
	list := map[port]string{}
	for _, word := range strings.Split(n.Annotations[wellknown.TakenPortsAnnotation], ",") {
		number, proto, ok := strings.Cut(word, "/")
		if p, err := strconv.ParseUint(number, 10, 16); ok && err == nil {
			list[port{corev1.Protocol(proto), int32(p)}] = "a program of the node"
		}
	}
	return list
}

// addresses are those of the nodes by which they are reached from outside: external ones if any node has one, else internal ones, in
// the service's order of families.
func addresses(nodes []*corev1.Node, v6 []bool) (list []string) {
	for _, typ := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, six := range v6 {
			for _, n := range nodes {
				for _, a := range n.Status.Addresses {
					if ip, err := netip.ParseAddr(a.Address); a.Type == typ && err == nil && ip.Is6() == six && !slices.Contains(list,
						a.Address) {
						list = append(list, a.Address)
					}
				}
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

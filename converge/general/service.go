package general

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// AliasOf is the service of this cluster that a service of type ExternalName is a name for. Below other domains, as clusterset.local, are
// services of other clusters.
func AliasOf(s *corev1.Service) (r converge.Ref, ok bool) {
	host, is := strings.CutSuffix(strings.TrimSuffix(strings.TrimSuffix(s.Spec.ExternalName, "."), ".cluster.local"), ".svc")
	name, ns, whole := strings.Cut(host, ".")
	return converge.Ref{Kind: core.Services, NS: ns, Name: name}, is && whole && !strings.Contains(ns, ".")
}

// aliasHealth finds a gap in a service that is a name for what no name can stand for, or for what does not exist.
func aliasHealth(w *converge.World, s *corev1.Service) converge.Health {
	want := "spec.externalName=" + s.Spec.ExternalName
	if _, err := netip.ParseAddr(s.Spec.ExternalName); err == nil {
		return converge.Health{Says: "leads nowhere", Want: want, Have: "an address, not a name"}
	}
	if r, ok := AliasOf(s); ok && w.Sees(core.Services, r.NS) && resource.Get(w.Read, core.Services, r.NS, r.Name) == nil {
		return converge.Health{Says: "leads nowhere", Want: want, Have: "no such service"}
	}
	if Circle(w, s) != "" {
		return converge.Health{Says: "leads nowhere", Want: want, Have: "a circle of names"}
	}
	return converge.Health{}
}

// Circle words the names that lead from a service to itself, or to a circle; "": they lead out.
func Circle(w *converge.World, s *corev1.Service) string {
	seen := []string{s.Namespace + "/" + s.Name}
	for s != nil && s.Spec.Type == corev1.ServiceTypeExternalName {
		r, ok := AliasOf(s)
		if name := r.NS + "/" + r.Name; ok && slices.Contains(seen, name) {
			return strings.Join(append(seen, name), " → ")
		} else if seen = append(seen, name); !ok {
			return ""
		}
		s = resource.Get(w.Read, core.Services, r.NS, r.Name)
	}
	return ""
}

// takeover is the time that an address may be without a node that answers before that is a gap: nodes take it within two seconds.
const takeover = 10 * time.Second

// An Unanswered address is one of a pool for which no node answers as it should, by the Lease of the address.
type Unanswered struct {
	Address, Holder, Trouble string
	free                     bool // no node has taken the Lease
	Lost                     bool // the node that has it is not ready
}

// Text completes a sentence about the address.
func (u *Unanswered) Text() string {
	switch {
	case u == nil:
		return ""
	case u.Trouble != "":
		return u.Trouble
	case u.Lost:
		return "node " + u.Holder + " answers for " + u.Address + ", and is not ready"
	}
	return "no node has taken " + u.Address
}

// Answerer finds the first address of a service that is not answered as it should be; nil: all are, as far as can be seen.
func Answerer(w *converge.World, s *corev1.Service) *Unanswered {
	for _, in := range s.Status.LoadBalancer.Ingress {
		for obj := range w.Read.ByLabel(coordination.Leases, wellknown.AnnounceSpace, wellknown.AnnounceLabel, "layer2") {
			l := resource.As[*coordinationv1.Lease](obj)
			if l.Annotations[wellknown.AnnouncedAddress] != in.IP {
				continue
			}
			u := &Unanswered{Address: in.IP, Holder: ptr.Deref(l.Spec.HolderIdentity, ""), Trouble: l.Annotations[wellknown.AnnouncedTrouble]}
			since := l.CreationTimestamp.Time
			if l.Spec.AcquireTime != nil {
				since = l.Spec.AcquireTime.Time
			}
			u.free = u.Holder == "" && w.Now.After(since.Add(takeover))
			if n := resource.Get(w.Read, core.Nodes, "", u.Holder); u.Holder != "" && (n == nil || !NodeReady(n)) {
				u.Lost = true
			}
			if u.Trouble != "" || u.free || u.Lost {
				return u
			}
		}
	}
	return nil
}

// restOfAnswered tells which node answers for the address of a service, and what no node can see of its way to the clients.
func restOfAnswered(w *converge.World, s *corev1.Service) (says, advice string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		l := resource.Get(w.Read, coordination.Leases, wellknown.AnnounceSpace, LeaseOf(w, in.IP))
		if l == nil || ptr.Deref(l.Spec.HolderIdentity, "") == "" {
			continue
		}
		says = "has the address " + in.IP + ", for which node " + *l.Spec.HolderIdentity + " answers ARP"
		if strings.Contains(in.IP, ":") {
			says = strings.TrimSuffix(says, "ARP") + "NDP"
		}
		if has := l.Annotations[wellknown.AnnouncedForeign]; has != "" {
			return says + ", but no network of that node holds it (" + has + "): clients reach it " +
					"only where a router sends it to the node",
				"ask a client for its way: ip route get " + in.IP + "; an address in the nodes' network, or a BGPAdvertisement, " +
					"needs no such route"
		}
		return says, "where a client gets no answer: arping " + in.IP + " there. Silence: a cloud or hypervisor that drops what is " +
			"not the machine's own, or an access point that filters broadcasts. Another hardware address: an old memory " +
			"(ip neigh flush to " + in.IP +
			"; routers keep theirs for hours). An answer, but no connection: a firewall"
	}
	return "", ""
}

// LeaseOf finds the Lease by which nodes agree who answers for an address on the link; "" when none does.
func LeaseOf(w *converge.World, address string) string {
	for obj := range w.Read.ByLabel(coordination.Leases, wellknown.AnnounceSpace, wellknown.AnnounceLabel, "layer2") {
		if resource.As[*coordinationv1.Lease](obj).Annotations[wellknown.AnnouncedAddress] == address {
			return obj.GetName()
		}
	}
	return ""
}

// ServiceCondition finds a condition of a service.
func ServiceCondition(s *corev1.Service, typ string) *metav1.Condition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == typ {
			return &s.Status.Conditions[i]
		}
	}
	return nil
}

// unannounced says why an address is answered by nobody; "": it may well be answered.
func unannounced(s *corev1.Service) string {
	c := ServiceCondition(s, wellknown.AnnouncedCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == wellknown.LBNoEndpoint {
		return ""
	}
	return c.Reason
}

// ServiceHealth finds no gap in a service whose workloads are scaled to zero: its user asked for that.
func ServiceHealth(w *converge.World, s *corev1.Service) converge.Health {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
		return converge.Health{Says: "has no address outside the cluster", Want: "spec.type=LoadBalancer",
			Have: "status.loadBalancer.ingress empty"}
	}
	if why := unannounced(s); why != "" && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return converge.Health{Says: "has an address that no node answers for", Want: "a node that announces it", Have: why}
	}
	if u := Answerer(w, s); u != nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return converge.Health{Says: "has an address that is not answered as it should be", Want: "a node that answers for " + u.Address,
			Have: u.Text()}
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return aliasHealth(w, s)
	}
	if !w.Sees(discovery.EndpointSlices, s.Namespace) {
		return converge.Health{}
	}
	ports, any := OpenPorts(w, s)
	if any {
		return portsHealth(s, ports)
	}
	if len(s.Spec.Selector) == 0 {
		if hasEndpoints(w, s) || w.Early(s.CreationTimestamp.Add(converge.Grace)) {
			return converge.Health{}
		}
		return converge.Health{Says: "leads nowhere", Want: "spec.ports[" + fmt.Sprint(len(s.Spec.Ports)) + "]",
			Have: "no selector and no endpoints"}
	}
	picked := Selected(w, s)
	if len(picked) == 0 && (w.Workloads().Asleep(w, s) != "" || w.Early(s.CreationTimestamp.Add(converge.Grace))) {
		return converge.Health{}
	}
	h := converge.Health{Says: "has no endpoint that takes connections", Want: "spec.selector=" + labels.Set(s.Spec.Selector).String(),
		Have: "no ready endpoint"}
	for _, p := range picked {
		if c := PodCondition(p, corev1.PodReady); c != nil && c.LastTransitionTime.After(h.Since) {
			h.Since = c.LastTransitionTime.Time
		}
	}
	return h
}

// OpenPorts are the names of the ports that lead to an endpoint that takes connections, and whether there is such an endpoint.
func OpenPorts(w *converge.World, s *corev1.Service) (names map[string]bool, any bool) {
	names = map[string]bool{}
	for obj := range w.Read.ByLabel(discovery.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		slice := obj.(*discoveryv1.EndpointSlice)
		if len(slice.Ports) == 0 && len(s.Spec.Ports) > 0 || !Suits(s, slice) {
			continue // its pods have none of the service's ports, or no address that goes with its own
		}
		for _, ep := range slice.Endpoints {
			if !ptr.Deref(ep.Conditions.Ready, true) {
				continue
			}
			any = true
			for _, p := range slice.Ports {
				names[ptr.Deref(p.Name, "")] = true
			}
			break
		}
	}
	return names, any
}

// Suits says that the addresses of a slice are of a family that the service has: others are led to by nobody.
func Suits(s *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	return len(s.Spec.IPFamilies) == 0 || slices.Contains(s.Spec.IPFamilies, corev1.IPFamily(slice.AddressType))
}

// hasEndpoints says that somebody made endpoints for a service, ready or not.
func hasEndpoints(w *converge.World, s *corev1.Service) bool {
	for obj := range w.Read.ByLabel(discovery.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		if slice := obj.(*discoveryv1.EndpointSlice); len(slice.Endpoints) > 0 && Suits(s, slice) {
			return true
		}
	}
	return false
}

// portsHealth finds a gap in a service of which one port leads nowhere though others lead somewhere.
func portsHealth(s *corev1.Service, open map[string]bool) converge.Health {
	for _, p := range s.Spec.Ports {
		if !open[p.Name] {
			return converge.Health{Says: fmt.Sprintf("has a port, %s, that leads nowhere", portName(p)),
				Want: fmt.Sprintf("spec.ports[%s].targetPort=%s", portName(p), p.TargetPort.String()), Have: "no ready endpoint has it"}
		}
	}
	return converge.Health{}
}

// portName names a port of a service.
func portName(p corev1.ServicePort) string { return cmp.Or(p.Name, fmt.Sprint(p.Port)) }

// Selected are the pods that a service selects and that are not through.
func Selected(w *converge.World, s *corev1.Service) (picked []*corev1.Pod) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	for key, value := range s.Spec.Selector {
		for obj := range w.Read.ByLabel(core.Pods, s.Namespace, key, value) {
			p := obj.(*corev1.Pod)
			if sel.Matches(labels.Set(p.Labels)) && !core.Terminal(p) {
				picked = append(picked, p)
			}
		}
		break
	}
	return picked
}

// RestOfService says why a service leads nowhere, or to another place than one thinks, on purpose, and what would change that.
func RestOfService(w *converge.World, s *corev1.Service) (string, string) {
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return "is but a name for " + s.Spec.ExternalName, ""
	case len(s.Spec.Selector) > 0 && len(Selected(w, s)) == 0:
		if name := w.Workloads().Asleep(w, s); name != "" {
			advice := ""
			if strings.HasPrefix(name, "deployment/") || strings.HasPrefix(name, "statefulset/") {
				advice = "kubectl scale " + name + " -n " + s.Namespace + " --replicas=1"
			}
			return "leads nowhere as long as " + name + " behind it runs no pod", advice
		}
	case len(s.Spec.Selector) > 0:
		if says, advice := restOfOpen(w, s); says != "" {
			return says, advice
		}
	}
	return restOfAnswered(w, s)
}

// Asleep says of what names a service that nothing answers, since what is behind it is scaled to 0, or seems to, since it leads to a port
// that is not declared there; "": that is not so.
func Asleep(w *converge.World, s *corev1.Service) (says, advice string) {
	if len(s.Spec.Selector) == 0 {
		return "", ""
	}
	if len(Selected(w, s)) > 0 {
		says, advice = elsewhereAt(w, s)
	} else if w.Workloads().Asleep(w, s) != "" {
		says, advice = RestOfService(w, s)
	}
	if says == "" {
		return "", ""
	}
	return "names service/" + s.Name + ", which " + says, advice
}

// restOfOpen tells of a service that takes connections where it does not, or that may lead to a port at which nobody listens.
func restOfOpen(w *converge.World, s *corev1.Service) (says, advice string) {
	if says, advice = elsewhereAt(w, s); says != "" {
		return says, advice
	}
	inside := ptr.Deref(s.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal
	outside := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if !inside && !outside {
		return "", ""
	}
	with, without := nodesOf(w, s)
	if len(with) == 0 || len(without) == 0 {
		return "", ""
	}
	from := "of clients in the cluster"
	field := "internalTrafficPolicy"
	if !inside {
		from, field = "from outside", "externalTrafficPolicy"
	}
	return fmt.Sprintf("takes connections %s on %s alone, and drops them on %s: its %s is Local, and its pods run there", from,
			words.List(with, 3), words.List(without, 3), field),
		"kubectl patch service " + s.Name + " -n " + s.Namespace + ` -p '{"spec":{"` + field + `":"Cluster"}}'`
}

// elsewhereAt tells of a service that leads to a port that its pods do not declare, while they declare others.
func elsewhereAt(w *converge.World, s *corev1.Service) (says, advice string) {
	for i, port := range s.Spec.Ports {
		number := port.TargetPort.IntVal
		if number == 0 || port.TargetPort.StrVal != "" {
			continue
		}
		if has := declared(Selected(w, s), port.Protocol); len(has) > 0 && !slices.Contains(has, number) {
			return fmt.Sprintf("leads to port %d of its pods, which declare %s: connections are refused if nothing listens there", number,
					words.List(words.Texts(has), 3)),
				fmt.Sprintf("if %d is meant: %s", has[0], converge.Patched(converge.RefTo(core.Services, s),
					converge.Put(fmt.Sprintf("/spec/ports/%d/targetPort", i), has[0])))
		}
	}
	return "", ""
}

// declared are the ports of a protocol that the containers of pods declare.
func declared(pods []*corev1.Pod, protocol corev1.Protocol) (list []int32) {
	for _, p := range pods {
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			for _, has := range c.Ports {
				if cmp.Or(string(has.Protocol), "TCP") == cmp.Or(string(protocol), "TCP") && !slices.Contains(list, has.ContainerPort) {
					list = append(list, has.ContainerPort)
				}
			}
		}
	}
	return list
}

// nodesOf are the nodes on which a service has a ready endpoint, and those on which it has none.
func nodesOf(w *converge.World, s *corev1.Service) (with, without []string) {
	on := map[string]bool{}
	for obj := range w.Read.ByLabel(discovery.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		for _, ep := range obj.(*discoveryv1.EndpointSlice).Endpoints {
			on[ptr.Deref(ep.NodeName, "")] = on[ptr.Deref(ep.NodeName, "")] || ptr.Deref(ep.Conditions.Ready, true)
		}
	}
	for _, n := range resource.List(w.Read, core.Nodes, "") {
		if on[n.Name] {
			with = append(with, n.Name)
		} else {
			without = append(without, n.Name)
		}
	}
	return with, without
}

package converge

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// takeover is the time that an address may be without a node that answers before that is a gap: nodes take it within two seconds.
const takeover = 10 * time.Second

// An unanswered address is one of a pool for which no node answers as it should, by the Lease of the address.
type unanswered struct {
	address, holder, trouble string
	free                     bool // no node has taken the Lease
	lost                     bool // the node that has it is not ready
}

func (u *unanswered) text() string {
	switch {
	case u == nil:
		return ""
	case u.trouble != "":
		return u.trouble
	case u.lost:
		return "node " + u.holder + " answers for " + u.address + ", and is not ready"
	}
	return "no node has taken " + u.address
}

// answerer finds the first address of a service that is not answered as it should be; nil: all are, as far as can be seen.
func answerer(w *World, s *corev1.Service) *unanswered {
	for _, in := range s.Status.LoadBalancer.Ingress {
		for obj := range w.Read.ByLabel(kinds.Leases, kinds.AnnounceSpace, kinds.AnnounceLabel, "layer2") {
			l := resource.As[*coordinationv1.Lease](obj)
			if l.Annotations[kinds.AnnouncedAddress] != in.IP {
				continue
			}
			u := &unanswered{address: in.IP, holder: ptr.Deref(l.Spec.HolderIdentity, ""), trouble: l.Annotations[kinds.AnnouncedTrouble]}
			since := l.CreationTimestamp.Time
			if l.Spec.AcquireTime != nil {
				since = l.Spec.AcquireTime.Time
			}
			u.free = u.holder == "" && w.Now.After(since.Add(takeover))
			if n := resource.Get(w.Read, kinds.Nodes, "", u.holder); u.holder != "" && (n == nil || !nodeReady(n)) {
				u.lost = true
			}
			if u.trouble != "" || u.free || u.lost {
				return u
			}
		}
	}
	return nil
}

// addressUnanswered: a node should answer for the address and does not, or somebody else does too.
func addressUnanswered(l *look) *Finding {
	s := l.obj.(*corev1.Service)
	u := answerer(l.World, s)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || u == nil {
		return nil
	}
	f := &Finding{Says: "has an address that is not answered as it should be: " + u.text(), Owner: person, State: Blocked,
		Waits: on("Object", Ref{kinds.Leases, kinds.AnnounceSpace, leaseOf(l.World, u.address)}, "spec.holderIdentity")}
	switch {
	case strings.Contains(u.trouble, "answers for the address too"):
		f.Next = does(person, "takes the address away from that machine")
		f.Advice = []string{"find the machine by its hardware address: ip neigh, or the tables of the switch",
			"in IPVS mode of another proxy every node answers for addresses on kube-ipvs0, unless its strictARP is on",
			"some networks answer for addresses that are not theirs (proxy_arp): look at that interface"}
	case u.trouble != "":
		f.Next = does(person, "changes that on the node")
		f.Advice = []string{"ip -d link on the node: the interface must be up, do ARP and belong to no bridge or bond",
			"an L2Advertisement's interfaces must be there; a packet socket needs CAP_NET_RAW"}
	case u.lost:
		f.Owner, f.State = "node agent on "+u.holder, Waiting
		f.Next = does("the other candidates", "take the address over")
		f.Below = []Ref{{kinds.Nodes, "", u.holder}}
	default:
		f.Next = does(person, "starts kloop's agent, with its own proxy, on the nodes that may answer")
		f.Advice = []string{"the annotation " + kinds.AnnouncedCandidates +
			" lists them: kubectl get lease -n " + kinds.AnnounceSpace + " -o yaml"}
	}
	return f
}

// restOfAnswered tells which node answers for the address of a service, and what no node can see of its way to the clients.
func restOfAnswered(w *World, s *corev1.Service) (says, advice string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		l := resource.Get(w.Read, kinds.Leases, kinds.AnnounceSpace, leaseOf(w, in.IP))
		if l == nil || ptr.Deref(l.Spec.HolderIdentity, "") == "" {
			continue
		}
		says = "has the address " + in.IP + ", for which node " + *l.Spec.HolderIdentity + " answers ARP"
		if strings.Contains(in.IP, ":") {
			says = strings.TrimSuffix(says, "ARP") + "NDP"
		}
		if has := l.Annotations[kinds.AnnouncedForeign]; has != "" {
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

// leaseOf finds the Lease by which nodes agree who answers for an address on the link; "" when none does.
func leaseOf(w *World, address string) string {
	for obj := range w.Read.ByLabel(kinds.Leases, kinds.AnnounceSpace, kinds.AnnounceLabel, "layer2") {
		if resource.As[*coordinationv1.Lease](obj).Annotations[kinds.AnnouncedAddress] == address {
			return obj.GetName()
		}
	}
	return ""
}

// leftToMetalLB: MetalLB runs here, so that nobody else gives addresses.
func leftToMetalLB(l *look) *Finding {
	s := l.obj.(*corev1.Service)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 || s.Spec.LoadBalancerClass != nil ||
		serviceCondition(s, kinds.AddressCondition) != nil {
		return nil
	}
	for label, value := range map[string]string{"app": "metallb", "app.kubernetes.io/name": "metallb"} {
		for d := range l.Read.ByLabel(kinds.Deployments, "", label, value) {
			return &Finding{Says: "waits for an address from MetalLB, which runs here; kloop leaves services to it", Owner: "MetalLB",
				State: Waiting,
				Waits: on("Field", refTo(l.kind, s), "status.loadBalancer.ingress"), Next: does("MetalLB", "gives it an address"),
				Advice: []string{"MetalLB's events tell more: kubectl describe service " + s.Name + " -n " + s.Namespace,
					"and so does its log: kubectl logs -n " + d.GetNamespace() + " deployment/" + d.GetName()}}
		}
	}
	return nil
}

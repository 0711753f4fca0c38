package causes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// addressUnanswered: a node should answer for the address and does not, or somebody else does too.
func addressUnanswered(l *converge.Look) *converge.Finding {
	s := l.Obj.(*corev1.Service)
	u := general.Answerer(l.World, s)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || u == nil {
		return nil
	}
	f := &converge.Finding{Says: "has an address that is not answered as it should be: " + u.Text(), Owner: converge.Person,
		State: converge.Blocked,
		Waits: converge.On("Object", converge.Ref{Kind: kinds.Leases, NS: wellknown.AnnounceSpace, Name: general.LeaseOf(l.World, u.Address)},
			"spec.holderIdentity")}
	switch {
	case strings.Contains(u.Trouble, "answers for the address too"):
		f.Next = converge.PersonDoes("takes the address away from that machine")
		f.Advice = []string{"find the machine by its hardware address: ip neigh, or the tables of the switch",
			"in IPVS mode of another proxy every node answers for addresses on kube-ipvs0, unless its strictARP is on",
			"some networks answer for addresses that are not theirs (proxy_arp): look at that interface"}
	case u.Trouble != "":
		f.Next = converge.PersonDoes("changes that on the node")
		f.Advice = []string{"ip -d link on the node: the interface must be up, do ARP and belong to no bridge or bond",
			"an L2Advertisement's interfaces must be there; a packet socket needs CAP_NET_RAW"}
	case u.Lost:
		f.Owner, f.State = "node agent on "+u.Holder, converge.Waiting
		f.Next = converge.Does("the other candidates", "take the address over")
		f.Below = []converge.Ref{{Kind: kinds.Nodes, NS: "", Name: u.Holder}}
	default:
		f.Next = converge.PersonDoes("starts kloop's agent, with its own proxy, on the nodes that may answer")
		f.Advice = []string{"the annotation " + wellknown.AnnouncedCandidates +
			" lists them: kubectl get lease -n " + wellknown.AnnounceSpace + " -o yaml"}
	}
	return f
}

// leftToMetalLB: MetalLB runs here, so that nobody else gives addresses.
func leftToMetalLB(l *converge.Look) *converge.Finding {
	s := l.Obj.(*corev1.Service)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 || s.Spec.LoadBalancerClass != nil ||
		general.ServiceCondition(s, wellknown.AddressCondition) != nil {
		return nil
	}
	for label, value := range map[string]string{"app": "metallb", "app.kubernetes.io/name": "metallb"} {
		for d := range l.Read.ByLabel(kinds.Deployments, "", label, value) {
			return &converge.Finding{Says: "waits for an address from MetalLB, which runs here; kloop leaves services to it",
				Owner: "MetalLB",
				State: converge.Waiting,
				Waits: l.Field("status.loadBalancer.ingress"), Next: converge.Does("MetalLB",
					"gives it an address"),
				Advice: []string{"MetalLB's events tell more: kubectl describe service " + s.Name + " -n " + s.Namespace,
					"and so does its log: kubectl logs -n " + d.GetNamespace() + " deployment/" + d.GetName()}}
		}
	}
	return nil
}

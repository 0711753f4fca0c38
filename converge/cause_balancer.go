package converge

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// balancers are the ways in which a load balancer's address is missing, or answered by nobody. The loop load-balancer writes why in the
// service's conditions; here it is said whose move it is.
func balancers() []Situation {
	of := []resource.Kind{kinds.Services}
	return []Situation{
		{"LoadBalancerOfMetalLB", of, leftToMetalLB},
		{"LoadBalancerAddressMissing", of, func(l *look) *Finding { return balancerFinding(l, kinds.AddressCondition) }},
		{"LoadBalancerNotAnnounced", of, func(l *look) *Finding { return balancerFinding(l, kinds.AnnouncedCondition) }},
		{"LoadBalancerUnanswered", of, addressUnanswered},
	}
}

// A remedy says whose move it is for a reason of a condition, and what they can do.
type remedy struct {
	state, owner string
	advice       []string
}

const excludeLabel = corev1.LabelNodeExcludeBalancers

// remedies stand by the reasons that the loop gives.
var remedies = map[string]remedy{
	kinds.LBNoNode: {Blocked, person, []string{"look whether nodes are ready, and kloop's own proxy runs there: kubectl get nodes",
		"where a node is to take part, take off the label that kubeadm gives its control planes: kubectl label nodes NODE " +
			excludeLabel + "-"}},
	kinds.LBPortsTaken: {Blocked, person, []string{"use another port, stop the program that has it, or take it from the other service",
		"with addresses of pools (loadBalancer.mode) services don't share ports"}},
	kinds.LBNoLocalEndpoint: {Waiting, "", []string{"externalTrafficPolicy Cluster needs no endpoint on the node itself"}},
	kinds.LBNoPool: {Blocked, person, []string{"make an IPAddressPool in " + kinds.AnnounceSpace +
		" that is for this service and has autoAssign, or name one in the annotation metallb.io/address-pool"}},
	kinds.LBPoolExhausted: {Blocked, person,
		[]string{"add addresses to a pool, or let services share one: annotation metallb.io/allow-shared-ip",
			"their status tells how many are in use: kubectl get ipaddresspools -n " + kinds.AnnounceSpace + " -o yaml"}},
	kinds.LBRequestRefused: {Blocked, person, []string{"correct spec.loadBalancerIP or the annotations metallb.io/loadBalancerIPs and " +
		"metallb.io/address-pool"}},
	kinds.LBNoAdvertisement: {Blocked, person, []string{"make an L2Advertisement or a BGPAdvertisement in " + kinds.AnnounceSpace +
		" (with an empty spec it is for all pools)"}},
	kinds.LBSharedSelector: {Blocked, person, []string{"take serviceSelectors from the advertisements, or the annotation " +
		"metallb.io/allow-shared-ip from the service"}},
	kinds.LBAggregate: {Blocked, person, []string{"set the BGPAdvertisement's aggregationLength so that aggregates lie within the pool"}},
	kinds.LBNoPeer: {Blocked, person, []string{"make a BGPPeer in " + kinds.AnnounceSpace + " for the router of the nodes, or correct it",
		"or an L2Advertisement, if the address is in the network of the nodes"}},
	kinds.LBNoSession: {Blocked, person,
		[]string{"see each one's condition Ready: kubectl get bgppeers -n " + kinds.AnnounceSpace + " -o yaml",
			"the router must know the nodes as its neighbours, with their AS number, and take connections to TCP port 179"}},
}

// balancerFinding tells what a condition says; nil: it is true, or not there.
func balancerFinding(l *look, typ string) *Finding {
	s := l.obj.(*corev1.Service)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil {
		return nil
	}
	c := serviceCondition(s, typ)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == kinds.LBNoEndpoint { // of endpoints others say more
		return nil
	}
	r := remedies[c.Reason]
	if r.state == "" {
		r = remedy{state: Blocked, owner: person}
	}
	f := &Finding{Says: "has no address from outside: " + c.Message, Owner: r.owner, State: r.state,
		Waits: on("Field", refTo(l.kind, s), "status.conditions["+typ+"]"),
		Next:  does(cmp.Or(r.owner, l.owner), "changes that; the loop load-balancer acts at once"), Advice: r.advice}
	if typ == kinds.AnnouncedCondition {
		f.Says = "has an address for which no node answers: " + c.Message
	}
	if r.owner == "" {
		f.Owner = "load-balancer"
		f.Next = does(f.Owner, "goes on when endpoints serve")
	}
	return f
}

func serviceCondition(s *corev1.Service, typ string) *metav1.Condition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == typ {
			return &s.Status.Conditions[i]
		}
	}
	return nil
}

// unannounced says why an address is answered by nobody; "": it may well be answered.
func unannounced(s *corev1.Service) string {
	c := serviceCondition(s, kinds.AnnouncedCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == kinds.LBNoEndpoint {
		return ""
	}
	return c.Reason
}

package causes

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// balancers are the ways in which a load balancer's address is missing, or answered by nobody. The loop load-balancer writes why in the
// service's conditions; here it is said whose move it is.
func balancers() []converge.Situation {
	of := []resource.Kind{kinds.Services}
	return []converge.Situation{
		{Name: "LoadBalancerOfMetalLB", Of: of, See: leftToMetalLB},
		{Name: "LoadBalancerAddressMissing", Of: of, See: func(l *converge.Look) *converge.Finding {
			return balancerFinding(l,
				wellknown.AddressCondition)
		}},
		{Name: "LoadBalancerNotAnnounced", Of: of, See: func(l *converge.Look) *converge.Finding {
			return balancerFinding(l,
				wellknown.AnnouncedCondition)
		}},
		{Name: "LoadBalancerUnanswered", Of: of, See: addressUnanswered},
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
	wellknown.LBNoNode: {converge.Blocked, converge.Person, []string{
		"look whether nodes are ready, and kloop's own proxy runs there: kubectl get nodes",
		"where a node is to take part, take off the label that kubeadm gives its control planes: kubectl label nodes NODE " +
			excludeLabel + "-"}},
	wellknown.LBPortsTaken: {converge.Blocked, converge.Person, []string{
		"use another port, stop the program that has it, or take it from the other service",
		"with addresses of pools (loadBalancer.mode) services don't share ports"}},
	wellknown.LBNoLocalEndpoint: {converge.Waiting, "", []string{"externalTrafficPolicy Cluster needs no endpoint on the node itself"}},
	wellknown.LBNoPool: {converge.Blocked, converge.Person, []string{"make an IPAddressPool in " + wellknown.AnnounceSpace +
		" that is for this service and has autoAssign, or name one in the annotation metallb.io/address-pool"}},
	wellknown.LBPoolExhausted: {converge.Blocked, converge.Person,
		[]string{"add addresses to a pool, or let services share one: annotation metallb.io/allow-shared-ip",
			"their status tells how many are in use: kubectl get ipaddresspools -n " + wellknown.AnnounceSpace + " -o yaml"}},
	wellknown.LBRequestRefused: {converge.Blocked, converge.Person,
		[]string{"correct spec.loadBalancerIP or the annotations metallb.io/loadBalancerIPs and " +
			"metallb.io/address-pool"}},
	wellknown.LBNoAdvertisement: {converge.Blocked, converge.Person, []string{"make an L2Advertisement or a BGPAdvertisement in " +
		wellknown.AnnounceSpace +
		" (with an empty spec it is for all pools)"}},
	wellknown.LBSharedSelector: {converge.Blocked, converge.Person,
		[]string{"take serviceSelectors from the advertisements, or the annotation " +
			"metallb.io/allow-shared-ip from the service"}},
	wellknown.LBAggregate: {converge.Blocked, converge.Person, []string{
		"set the BGPAdvertisement's aggregationLength so that aggregates lie within the pool"}},
	wellknown.LBNoPeer: {converge.Blocked, converge.Person, []string{"make a BGPPeer in " + wellknown.AnnounceSpace +
		" for the router of the nodes, or correct it",
		"or an L2Advertisement, if the address is in the network of the nodes"}},
	wellknown.LBNoSession: {converge.Blocked, converge.Person,
		[]string{"see each one's condition Ready: kubectl get bgppeers -n " + wellknown.AnnounceSpace + " -o yaml",
			"the router must know the nodes as its neighbours, with their AS number, and take connections to TCP port 179"}},
}

// balancerFinding tells what a condition says; nil: it is true, or not there.
func balancerFinding(l *converge.Look, typ string) *converge.Finding {
	s := l.Obj.(*corev1.Service)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil {
		return nil
	}
	c := general.ServiceCondition(s, typ)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == wellknown.LBNoEndpoint { // of endpoints others say more
		return nil
	}
	r := remedies[c.Reason]
	if r.state == "" {
		r = remedy{state: converge.Blocked, owner: converge.Person}
	}
	f := &converge.Finding{Says: "has no address from outside: " + c.Message, Owner: r.owner, State: r.state,
		Waits: l.Field("status.conditions[" + typ + "]"),
		Next:  converge.Does(cmp.Or(r.owner, l.Owner), "changes that; the loop load-balancer acts at once"), Advice: r.advice}
	if typ == wellknown.AnnouncedCondition {
		f.Says = "has an address for which no node answers: " + c.Message
	}
	if r.owner == "" {
		f.Owner = "load-balancer"
		f.Next = converge.Does(f.Owner, "goes on when endpoints serve")
	}
	return f
}

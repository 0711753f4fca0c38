// Package loadbalancer gives Services of type LoadBalancer their addresses: those of nodes, or those of MetalLB's IPAddressPools.
//
//	reads   Services, EndpointSlices, Nodes, Namespaces; IPAddressPools, L2Advertisements, BGPAdvertisements, BGPPeers and Communities of
//	        metallb.io, the peers' Secrets; Leases; MetalLB's Deployment, CustomResourceDefinition
//	writes  Service: status, annotation metallb.io/ip-allocated-from-pool; IPAddressPool, BGPPeer: status; ServiceL2Status,
//	        ServiceBGPStatus; Lease: one for each address of a pool, and one for each node that speaks BGP; where pools are wanted and
//	        not there: their definitions and namespace
//	rule    a Service of type LoadBalancer that is left to nobody else has the addresses at which it is reached, a condition that
//	        says which or why not, and neither once its type changes
//
// With pools it is MetalLB's controller: what its documentation says of its kinds and annotations holds. The only memory of which
// Service has which address is the Services' statuses. The nodes settle who answers for an address (package loadbalancer): this loop
// says in the Lease of the address which of them may, and in that of a node which routers it speaks to and what it tells them.
//
// Addresses that others wrote are never touched: what carries no condition of ours and has an address is somebody else's. So are
// Services of a class, and all of them where MetalLB itself runs.
package loadbalancer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A Mode says where addresses come from.
type Mode string

// The modes. The zero value is Nodes.
const (
	Nodes Mode = "nodes" // the nodes' own, as k3s's ServiceLB gives them
	Pools Mode = "pools" // IPAddressPools
	None  Mode = "none"  // somebody else gives them
)

// rest is the least time between two looks at everything: a burst of changes costs few.
const rest = 50 * time.Millisecond

// one is the only key: two services must never be given one address.
const one = "load-balancers"

// Controller returns the loop.
func Controller(mode Mode) *loop.Controller[*corev1.Service] {
	return &loop.Controller[*corev1.Service]{
		Name: "load-balancer",
		For:  kinds.Services,
		Lone: one,
		Wake: []loop.Wake{{Kind: kinds.Services, Keys: byService}, {Kind: kinds.EndpointSlices, Keys: bySlice},
			{Kind: kinds.Nodes, Keys: byNode}, {Keys: byOther}},
		Writes:  loop.Anything,
		Workers: 1,
		Rest:    rest,
		Gone: func(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
			return 0, reconcile(ctx, c, mode)
		},
	}
}

// byService wakes when a service that concerns us changed.
func byService(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	for _, obj := range []resource.Object{c.Old, c.New} {
		if s, ok := obj.(*corev1.Service); ok && s != nil && (balanced(s) || ours(s)) {
			wake("", one)
			return
		}
	}
}

// bySlice wakes when the endpoints of such a service changed.
func bySlice(c client.Change, read resource.Reader, wake func(ns, name string)) {
	o := c.Object()
	s := resource.Get(read, kinds.Services, o.GetNamespace(), o.GetLabels()[discoveryv1.LabelServiceName])
	if s != nil && balanced(s) {
		wake("", one)
	}
}

// byNode wakes when a node changed in what we go by: not at every heartbeat.
func byNode(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	o, _ := c.Old.(*corev1.Node)
	n, _ := c.New.(*corev1.Node)
	if o == nil || n == nil || refusal(o) != refusal(n) ||
		o.Annotations[wellknown.TakenPortsAnnotation] != n.Annotations[wellknown.TakenPortsAnnotation] ||
		!slices.Equal(o.Status.Addresses, n.Status.Addresses) || !maps.Equal(o.Labels, n.Labels) {
		wake("", one)
	}
}

// balanced says that a service is to have addresses from outside.
func balanced(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.DeletionTimestamp == nil
}

// ours says that we have said something about the service before.
func ours(s *corev1.Service) bool {
	return meta.FindStatusCondition(s.Status.Conditions, wellknown.AddressCondition) != nil
}

// observe reads what the plan goes by.
func observe(c resource.Reader, set *resource.Set, mode Mode) *world {
	w := &world{mode: mode, nodes: resource.List(c, kinds.Nodes, ""), ends: map[*corev1.Service]backends{}}
	if metalLB(c) {
		w.mode = None
	}
	if w.mode == Pools {
		w.configure(c, set)
	}
	for _, s := range resource.List(c, kinds.Services, "") {
		switch {
		case !balanced(s) && ours(s):
			w.former = append(w.former, s)
		case balanced(s) && s.Spec.LoadBalancerClass == nil && (ours(s) || len(s.Status.LoadBalancer.Ingress) == 0):
			w.services = append(w.services, s)
			w.ends[s] = backendsOf(c, s)
		}
	}
	w.sort()
	return w
}

// backendsOf reads where endpoints of the service serve.
func backendsOf(read resource.Reader, s *corev1.Service) backends {
	b := backends{}
	for obj := range read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		for _, e := range resource.As[*discoveryv1.EndpointSlice](obj).Endpoints {
			if ready := e.Conditions.Ready; (ready == nil || *ready) || e.Conditions.Serving != nil && *e.Conditions.Serving {
				b.any = true
				if e.NodeName != nil {
					b.on = append(b.on, *e.NodeName)
				}
			}
		}
	}
	slices.Sort(b.on)
	b.on = slices.Compact(b.on)
	return b
}

func reconcile(ctx context.Context, c *loop.Ctx, mode Mode) error {
	set := c.Client().Kinds()
	w := observe(c, set, mode)
	decisions, announced, spoken := plan(w)
	var errs []error
	if w.mode == Pools {
		errs = append(errs, install(ctx, c))
	}
	for _, d := range decisions {
		errs = append(errs, act(ctx, c, d))
	}
	errs = append(errs, leases(ctx, c, w, announced), speeches(ctx, c, w, spoken), poolStatuses(ctx, c, set, w.pools))
	if mode == Pools { // as MetalLB fills them in where it is here
		errs = append(errs, l2Statuses(ctx, c, set), bgpStatuses(ctx, c, set, spoken))
	}
	return errors.Join(append(errs, peerStatuses(ctx, c, set, w))...)
}

// act writes what was decided of one service.
func act(ctx context.Context, c *loop.Ctx, d decision) error {
	if err := status(ctx, c, d); err != nil {
		return err
	}
	return origin(ctx, c, d)
}

// status writes addresses and conditions, and tells what changed.
func status(ctx context.Context, c *loop.Ctx, d decision) error {
	next := resource.Clone(d.service)
	if d.drop { // no longer ours; the server has dropped the addresses if the type changed
		meta.RemoveStatusCondition(&next.Status.Conditions, wellknown.AddressCondition)
		meta.RemoveStatusCondition(&next.Status.Conditions, wellknown.AnnouncedCondition)
		next.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	} else {
		next.Status.LoadBalancer.Ingress = d.ingress()
		set(c, next, wellknown.AddressCondition, d.address)
		if d.announced.reason == "" {
			meta.RemoveStatusCondition(&next.Status.Conditions, wellknown.AnnouncedCondition)
		} else {
			set(c, next, wellknown.AnnouncedCondition, d.announced)
		}
	}
	if equality.Semantic.DeepEqual(next.Status, d.service.Status) {
		return nil
	}
	if err := c.UpdateStatus(ctx, kinds.Services, next); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is looked at again as it is now
			return nil
		}
		return err
	}
	tell(c, d)
	return nil
}

func set(c *loop.Ctx, s *corev1.Service, typ string, v verdict) {
	cond := metav1.Condition{Type: typ, Status: metav1.ConditionFalse, Reason: v.reason, Message: v.says,
		LastTransitionTime: metav1.Time{Time: c.Now().Truncate(time.Second)}}
	if v.ok {
		cond.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.Status.Conditions, cond)
}

// tell makes the events that MetalLB makes, when the addresses or the reason that there are none changed.
func tell(c *loop.Ctx, d decision) {
	s := d.service
	was := meta.FindStatusCondition(s.Status.Conditions, wellknown.AddressCondition)
	var had []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		had = append(had, in.IP)
	}
	switch {
	case d.drop:
		c.Event(kinds.Services, s, corev1.EventTypeNormal, "ClearAssignment", "Assigned IPs %q cleared: no longer served here", had)
	case d.address.ok && !slices.Equal(had, d.ips):
		c.Event(kinds.Services, s, corev1.EventTypeNormal, "IPAllocated", "Assigned IP %q", d.ips)
	case !d.address.ok && (was == nil || was.Reason != d.address.reason):
		c.Event(kinds.Services, s, corev1.EventTypeWarning, "AllocationFailed", "Failed to allocate IP for %q: %s", s.Namespace+"/"+s.Name,
			strings.TrimSuffix(d.address.says, "."))
	}
}

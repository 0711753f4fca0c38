// Package services has what Services need of the front door: cluster IPs and node ports, which are allocated before a Service is stored,
// the repair loop over them, and the Service default/kubernetes with the endpoints of the API servers.
package services

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// Network holds what services get their addresses and ports from.
type Network struct {
	Services []netip.Prefix // cluster IPs, the default family first, at most one of each; none: 10.96.0.0/16
	PortLow  int32          // first node port; 0: 30000
	PortHigh int32          // last node port; 0: 32767
}

// An Allocator hands out what must be unique among services. What is taken is in the store: an address as an
// IPAddress object, ports as bits of one value. So several servers can share a store. It is safe for concurrent use.
type Allocator struct {
	ops    server.Operations
	core   *server.Core
	ranges []ipRange // the default family first
	ports  portRange
	leaked atomic.Int64 // when something may have been taken that no service has, in ns; 0: nothing since RepairLoop looked
}

// New returns the allocator of a server. It starts nothing.
func New(srv *server.Server, n Network) *Allocator {
	a := &Allocator{ops: srv, core: srv.Core}
	if len(n.Services) == 0 {
		n.Services = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	}
	for _, p := range n.Services {
		a.ranges = append(a.ranges, ipRange{prefix: p.Masked()})
	}
	a.ports = portRange{low: n.PortLow, high: n.PortHigh}
	if a.ports.low == 0 {
		a.ports.low = 30000
	}
	if a.ports.high == 0 {
		a.ports.high = 32767
	}
	return a
}

// Extension is for services.
func (s *Allocator) Extension() server.Extension {
	return server.Extension{Resource: corev1.Resource("services"), Allocate: s.allocate, AfterWrite: s.release, Doubt: s.leak}
}

// allocate gives a new or changed service what it needs, writing it into obj.
func (s *Allocator) allocate(ctx context.Context, r *server.Request, obj, old resource.Object) (func(context.Context, error), error) {
	svc, ok := obj.(*corev1.Service)
	if !ok || r.Sub != "" {
		return nil, nil
	}
	var before *corev1.Service
	if old != nil {
		before = old.(*corev1.Service)
	}
	t := &taking{s: s, r: r, svc: svc}
	if err := t.all(ctx, before); err != nil {
		if server.Doubtful(err) {
			s.leak()
		}
		t.undo(context.WithoutCancel(ctx))
		return nil, err
	}
	return t.done, nil
}

// leak notes that something may be allocated that no service has, for the repair loop.
func (s *Allocator) leak() { s.leaked.Store(s.core.Time().UnixNano()) }

// release gives back what a changed service no longer needs, or all that a deleted one had.
func (s *Allocator) release(ctx context.Context, r *server.Request, old, obj resource.Object) {
	was, ok := old.(*corev1.Service)
	is, changed := obj.(*corev1.Service)
	switch {
	case !ok || changed && r.Sub != "":
	case changed:
		s.giveBack(ctx, was, clusterIPs(is), portsOf(is))
	default:
		s.giveBack(ctx, was, nil, nil)
	}
}

// giveBack frees the addresses and ports of a service except those to keep. A failure costs an address until
// the next repair, so it is only logged.
func (s *Allocator) giveBack(ctx context.Context, svc *corev1.Service, ips []string, ports []int32) {
	ctx = context.WithoutCancel(ctx)
	for _, ip := range clusterIPs(svc) {
		if !slices.Contains(ips, ip) {
			if err := s.freeIP(ctx, ip, svc); err != nil {
				s.leak()
				slog.Warn("a cluster IP is not given back", "kind", "Service", "object", svc.Namespace+"/"+svc.Name, "err", err)
			}
		}
	}
	var free []int32
	for _, p := range portsOf(svc) {
		if !slices.Contains(ports, p) {
			free = append(free, p)
		}
	}
	if err := s.freePorts(ctx, free); err != nil {
		s.leak()
		slog.Warn("node ports are not given back", "kind", "Service", "object", svc.Namespace+"/"+svc.Name, "err", err)
	}
}

// A taking is the allocation for one service, which can be undone.
type taking struct {
	s     *Allocator
	r     *server.Request
	svc   *corev1.Service
	ips   []string
	ports []int32
}

// done takes the allocation back if the service was not stored. When nobody knows, the repair loop looks later.
func (t *taking) done(ctx context.Context, err error) {
	switch {
	case t.r.DryRun || err == nil:
	case server.Doubtful(err):
		t.s.leak()
	default:
		t.undo(ctx)
	}
}

func (t *taking) undo(ctx context.Context) {
	if t.r.DryRun {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for _, ip := range t.ips {
		if err := t.s.freeIP(ctx, ip, t.svc); err != nil {
			t.s.leak()
			slog.Warn("a cluster IP is not given back", "kind", "IPAddress", "object", ip, "err", err)
		}
	}
	if err := t.s.freePorts(ctx, t.ports); err != nil {
		t.s.leak()
		slog.Warn("node ports are not given back", "kind", "Service", "object", t.svc.Namespace+"/"+t.svc.Name, "err", err)
	}
}

func (t *taking) all(ctx context.Context, before *corev1.Service) error {
	if t.svc.Spec.Type != corev1.ServiceTypeExternalName { // upstream allocates before it looks at anything else: these errors come alone
		if errs := core.ValidateClusterIPs(t.svc, before); len(errs) > 0 {
			return server.Invalid(t.r, t.svc.Name, errs)
		}
		if errs := t.families(before); len(errs) > 0 {
			return server.Invalid(t.r, t.svc.Name, errs)
		}
	}
	if t.hopeless(before) {
		return nil
	}
	if err := t.takeIPs(ctx, before); err != nil {
		return err
	}
	return t.takePorts(ctx, before)
}

func ofAddresses(e *field.Error) bool {
	return strings.HasPrefix(e.Field, "spec.clusterIP") || strings.HasPrefix(e.Field, "spec.ipFamil")
}

// hopeless says that validation is going to refuse the addresses or families that were asked for.
func (t *taking) hopeless(before *corev1.Service) bool {
	var old resource.Object
	if before != nil {
		old = before
	}
	return slices.ContainsFunc(t.r.Kind.Check(t.s.core.Kinds.Features(), nil, "", t.svc, old),
		func(e *field.Error) bool { return ofAddresses(e) || e.Field == "spec.type" })
}

// clusterIPs are the addresses that are allocated to a service.
func clusterIPs(svc *corev1.Service) []string {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || headless(svc) {
		return nil
	}
	if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP != "" {
		return []string{svc.Spec.ClusterIP}
	}
	return svc.Spec.ClusterIPs
}

func headless(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP == corev1.ClusterIPNone ||
		len(svc.Spec.ClusterIPs) > 0 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// portsOf are the node ports that are allocated to a service.
func portsOf(svc *corev1.Service) (list []int32) {
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 && !slices.Contains(list, p.NodePort) {
			list = append(list, p.NodePort)
		}
	}
	if p := svc.Spec.HealthCheckNodePort; p != 0 && !slices.Contains(list, p) {
		list = append(list, p)
	}
	return list
}

package server

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// Network holds what services get their addresses and ports from.
type Network struct {
	Services []netip.Prefix // cluster IPs, the default family first, at most one of each; none: 10.96.0.0/16
	PortLow  int32          // first node port; 0: 30000
	PortHigh int32          // last node port; 0: 32767
}

// An allocator hands out what must be unique among services. What is taken is in the store: an address as an
// IPAddress object, ports as bits of one value. So several servers can share a store.
type allocator struct {
	ranges []ipRange // the default family first
	ports  portRange
	leaked atomic.Int64 // when something may have been taken that no service has, in ns; 0: nothing since Mend looked
}

func (a *allocator) init(n Network) {
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
}

// begin allocates what a new or changed object needs, writing it into obj. undo takes it back.
func (s *Server) begin(ctx context.Context, r *Request, obj, old resource.Object) (undo func(context.Context), err error) {
	svc, ok := obj.(*core.Service)
	if !ok || r.Sub != "" {
		return func(context.Context) {}, nil
	}
	var before *core.Service
	if old != nil {
		before = old.(*core.Service)
	}
	t := &taking{s: s, r: r, svc: svc}
	if err := t.all(ctx, before); err != nil {
		t.undo(context.WithoutCancel(ctx))
		return nil, err
	}
	return t.undo, nil
}

// changed gives back what a changed object no longer needs.
func (s *Server) changed(ctx context.Context, r *Request, old, obj resource.Object) {
	was, ok := old.(*core.Service)
	if !ok || r.Sub != "" {
		return
	}
	is := obj.(*core.Service)
	s.giveBack(ctx, was, clusterIPs(is), portsOf(is))
}

// deleted gives back what a deleted object had.
func (s *Server) deleted(ctx context.Context, _ *Request, obj resource.Object) {
	if was, ok := obj.(*core.Service); ok {
		s.giveBack(ctx, was, nil, nil)
	}
}

// giveBack frees the addresses and ports of a service except those to keep. A failure costs an address until
// the next repair, so it is only logged.
func (s *Server) giveBack(ctx context.Context, svc *core.Service, ips []string, ports []int32) {
	ctx = context.WithoutCancel(ctx)
	for _, ip := range clusterIPs(svc) {
		if !slices.Contains(ips, ip) {
			if err := s.freeIP(ctx, ip, svc); err != nil {
				s.alloc.leaked.Store(s.now().UnixNano())
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
		s.alloc.leaked.Store(s.now().UnixNano())
		slog.Warn("node ports are not given back", "kind", "Service", "object", svc.Namespace+"/"+svc.Name, "err", err)
	}
}

// A taking is the allocation for one service, which can be undone.
type taking struct {
	s     *Server
	r     *Request
	svc   *core.Service
	ips   []string
	ports []int32
}

func (t *taking) undo(ctx context.Context) {
	if t.r.DryRun {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for _, ip := range t.ips {
		if err := t.s.freeIP(ctx, ip, t.svc); err != nil {
			slog.Warn("a cluster IP is not given back", "kind", "IPAddress", "object", ip, "err", err)
		}
	}
	if err := t.s.freePorts(ctx, t.ports); err != nil {
		slog.Warn("node ports are not given back", "kind", "Service", "object", t.svc.Namespace+"/"+t.svc.Name, "err", err)
	}
}

func (t *taking) all(ctx context.Context, before *core.Service) error {
	if t.hopeless(before) {
		return nil
	}
	if errs := t.families(before); len(errs) > 0 {
		return invalid(t.r, t.svc.Name, errs)
	}
	if err := t.takeIPs(ctx, before); err != nil {
		return err
	}
	return t.takePorts(ctx, before)
}

// hopeless says that validation is going to refuse the addresses or families that were asked for.
func (t *taking) hopeless(before *core.Service) bool {
	var old resource.Object
	if before != nil {
		old = before
	}
	return slices.ContainsFunc(t.r.Kind.Check("", t.svc, old), func(e *field.Error) bool {
		return strings.HasPrefix(e.Field, "spec.clusterIP") || strings.HasPrefix(e.Field, "spec.ipFamil") || e.Field == "spec.type"
	})
}

// clusterIPs are the addresses that are allocated to a service.
func clusterIPs(svc *core.Service) []string {
	if svc.Spec.Type == core.ServiceTypeExternalName || headless(svc) {
		return nil
	}
	if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP != "" {
		return []string{svc.Spec.ClusterIP}
	}
	return svc.Spec.ClusterIPs
}

func headless(svc *core.Service) bool {
	return svc.Spec.ClusterIP == core.ClusterIPNone ||
		len(svc.Spec.ClusterIPs) > 0 && svc.Spec.ClusterIPs[0] == core.ClusterIPNone
}

// portsOf are the node ports that are allocated to a service.
func portsOf(svc *core.Service) (list []int32) {
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

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// Repair makes what is allocated agree with the services that there are: a crash between an allocation and
// the write of its service leaves a difference. It must run before the server takes requests.
func (s *Server) Repair(ctx context.Context) error {
	services, ok := s.Kinds.GR(schema.GroupResource{Resource: "services"})
	addresses, too := s.addresses()
	if !ok || !too {
		return nil
	}
	snap, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	used := map[string]*core.Service{}
	var ports []int32
	for obj := range snap.Each(services, "") {
		svc := obj.(*core.Service)
		for _, ip := range clusterIPs(svc) {
			used[ip] = svc
		}
		ports = append(ports, portsOf(svc)...)
	}
	if err := s.repairIPs(ctx, snap, used); err != nil {
		return err
	}
	for e := range snap.Entries(addresses, "", "") {
		if err := s.dropOrphan(ctx, e, used); err != nil {
			return err
		}
	}
	return s.repairPorts(ctx, ports)
}

// repairIPs makes the IPAddress objects that are missing.
func (s *Server) repairIPs(ctx context.Context, snap *view.Snapshot, used map[string]*core.Service) error {
	k, _ := s.addresses()
	for ip, svc := range used {
		addr, err := netip.ParseAddr(ip)
		if err != nil || snap.Entry(k, "", addr.String()) != nil {
			continue
		}
		var lost *store.ConflictError
		if _, err = s.put(ctx, k, s.address(addr, svc), 0, 0); err != nil && !errors.As(err, &lost) {
			return fmt.Errorf("repair the address of service %s/%s: %w", svc.Namespace, svc.Name, err)
		}
		slog.Info("made a missing IPAddress", "kind", "IPAddress", "object", ip)
	}
	return nil
}

// dropOrphan deletes an address that was allocated to a service which does not have it.
func (s *Server) dropOrphan(ctx context.Context, e *view.Entry, used map[string]*core.Service) error {
	a := e.Object.(*networking.IPAddress)
	ref := a.Spec.ParentRef
	if a.Labels[networking.LabelManagedBy] != managedBy || ref == nil || ref.Resource != "services" {
		return nil
	}
	if svc := used[a.Name]; svc != nil && svc.Namespace == ref.Namespace && svc.Name == ref.Name {
		return nil
	}
	_, err := s.remove(ctx, e)
	var lost *store.ConflictError
	if err != nil && !errors.As(err, &lost) {
		return fmt.Errorf("give back the address %s: %w", a.Name, err)
	}
	slog.Info("gave back an address of no service", "kind", "IPAddress", "object", a.Name)
	return nil
}

func (s *Server) repairPorts(ctx context.Context, used []int32) error {
	return s.editPorts(ctx, false, func(b bitmap) error {
		b.bits.Set(new(big.Int))
		for _, p := range used {
			b.set(p, 1)
		}
		return nil
	})
}

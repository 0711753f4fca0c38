package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// Repair makes what is allocated agree with the services that there are: a crash between an allocation and
// the write of its service leaves a difference. It must run before the server takes requests. Other servers may take
// some meanwhile, so that only a sole one gives back what no service has; the others leave that to RepairLoop.
func (s *Allocator) Repair(ctx context.Context) error {
	young := leakedFrom
	if s.core.Sole {
		young = 0
	}
	leaked, err := s.repair(ctx, young)
	if err != nil || !s.core.Sole {
		return err
	}
	return s.freePorts(ctx, leaked)
}

// How RepairLoop tells what leaked from what is about to be used: requests end after a minute.
const (
	repairEvery = 3 * time.Minute
	leakedFrom  = 2 * time.Minute // age of an address that no service has
)

// RepairLoop repairs again and again until ctx ends, while this server and others allocate too. It gives back ports that no
// service had the last two times it looked. A sole server looks only when it knows that something may have leaked.
func (s *Allocator) RepairLoop(ctx context.Context) {
	t := time.NewTicker(repairEvery)
	defer t.Stop()
	var before []int32
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		since := s.leaked.Load()
		if since == 0 && s.core.Sole {
			continue
		}
		old := s.core.Time().Sub(time.Unix(0, since)) > leakedFrom
		leaked, err := s.repair(ctx, leakedFrom)
		if err == nil {
			err = s.freePorts(ctx, slices.DeleteFunc(slices.Clone(leaked), func(p int32) bool { return !slices.Contains(before, p) }))
		}
		if err != nil && ctx.Err() == nil {
			slog.Warn("check what is allocated to services", "err", err, "again", repairEvery)
		}
		if before = leaked; err == nil && len(leaked) == 0 && old {
			s.leaked.CompareAndSwap(since, 0)
		}
	}
}

// repair adds what is missing and gives back addresses, but for those that are young. It returns the ports that are
// taken and that no service has.
func (s *Allocator) repair(ctx context.Context, young time.Duration) (leaked []int32, err error) {
	services, ok := s.core.Kinds.GR(schema.GroupResource{Resource: "services"})
	addresses, too := s.addresses()
	if !ok || !too {
		return nil, nil
	}
	snap, err := s.core.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]*corev1.Service{}
	var ports []int32
	for obj := range snap.Each(services, "") {
		svc := obj.(*corev1.Service)
		for _, ip := range clusterIPs(svc) {
			used[ip] = svc
		}
		ports = append(ports, portsOf(svc)...)
	}
	if err := s.repairIPs(ctx, snap, used); err != nil {
		return nil, err
	}
	for e := range snap.Entries(addresses, "", "") {
		if err := s.dropOrphan(ctx, e, used, young); err != nil {
			return nil, err
		}
	}
	return s.repairPorts(ctx, ports)
}

// repairIPs makes the IPAddress objects that are missing.
func (s *Allocator) repairIPs(ctx context.Context, snap *view.Snapshot, used map[string]*corev1.Service) error {
	k, _ := s.addresses()
	for ip, svc := range used {
		addr, err := netip.ParseAddr(ip)
		if err != nil || snap.Entry(k, "", addr.String()) != nil {
			continue
		}
		var lost *store.ConflictError
		if _, err = s.core.Put(ctx, k, s.address(addr, svc), nil, 0); err != nil && !errors.As(err, &lost) {
			return fmt.Errorf("repair the address of service %s/%s: %w", svc.Namespace, svc.Name, err)
		}
		slog.Info("made a missing IPAddress", "kind", "IPAddress", "object", ip)
	}
	return nil
}

// dropOrphan deletes an address that was allocated to a service which does not have it.
func (s *Allocator) dropOrphan(ctx context.Context, e *view.Entry, used map[string]*corev1.Service, young time.Duration) error {
	a := e.Object.(*networkingv1.IPAddress)
	ref := a.Spec.ParentRef
	if a.Labels[networkingv1.LabelManagedBy] != managedBy || ref == nil || ref.Resource != "services" {
		return nil
	}
	if svc := used[a.Name]; svc != nil && svc.Namespace == ref.Namespace && svc.Name == ref.Name {
		return nil
	}
	if s.core.Time().Sub(a.CreationTimestamp.Time) < young {
		return nil // its service may be on the way
	}
	_, err := s.core.Remove(ctx, e)
	var lost *store.ConflictError
	if err != nil && !errors.As(err, &lost) {
		return fmt.Errorf("give back the address %s: %w", a.Name, err)
	}
	slog.Info("gave back an address of no service", "kind", "IPAddress", "object", a.Name)
	return nil
}

// repairPorts takes the ports in use that are not taken, and returns those that are taken and not in use.
func (s *Allocator) repairPorts(ctx context.Context, used []int32) (leaked []int32, err error) {
	err = s.editPorts(ctx, false, func(b bitmap) error {
		leaked = nil
		for p := b.g.low; p <= b.g.high; p++ {
			if b.has(p) && !slices.Contains(used, p) {
				leaked = append(leaked, p)
			}
		}
		for _, p := range used {
			b.set(p, 1)
		}
		return nil
	})
	return leaked, err
}

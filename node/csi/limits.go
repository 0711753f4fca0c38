package csi

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/kloop-dev/kloop/resource"
)

// limitsEvery is the interval at which the agent looks whether a driver wants to be asked again how many volumes it can attach.
const limitsEvery = time.Minute

// RefreshLimits asks drivers again how many volumes the node can have, as often as their CSIDriver says (KEP-4876), until ctx ends.
func (m *Mounter) RefreshLimits(ctx context.Context) {
	asked := map[string]time.Time{}
	for {
		wait := m.refreshLimits(ctx, asked)
		select {
		case <-ctx.Done():
			return
		case <-m.Drivers.came: // its CSIDriver may want less than the wait
		case <-time.After(wait):
		}
	}
}

// refreshLimits asks those that are due. wait: none is before.
func (m *Mounter) refreshLimits(ctx context.Context, asked map[string]time.Time) (wait time.Duration) {
	wait = limitsEvery
	list := m.Drivers.list()
	maps.DeleteFunc(asked, func(name string, _ time.Time) bool {
		return !slices.ContainsFunc(list, func(d *driver) bool { return d.name == name })
	})
	for _, d := range list {
		about, err := m.description(ctx, d.name)
		if err != nil || about == nil || about.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
			continue
		}
		every := resource.Seconds(*about.Spec.NodeAllocatableUpdatePeriodSeconds)
		if asked[d.name].IsZero() {
			asked[d.name] = time.Now() // it has just registered
		}
		if left := every - time.Since(asked[d.name]); left > 0 {
			wait = min(wait, left)
			continue
		}
		asked[d.name] = time.Now()
		wait = min(wait, every)
		if err := m.Drivers.renew(ctx, d); err != nil && ctx.Err() == nil {
			m.log.Warn("ask a CSI driver how many volumes the node can have", "driver", d.name, "err", err)
		}
	}
	return wait
}

// list returns the drivers that are registered.
func (ds *Drivers) list() []*driver {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.Collect(maps.Values(ds.of))
}

// renew asks a driver about its limit, and enters it. The driver itself stays as it registered.
func (ds *Drivers) renew(ctx context.Context, d *driver) error {
	call, stop := ds.limit(ctx)
	defer stop()
	info, err := d.node.NodeGetInfo(call, &csi.NodeGetInfoRequest{})
	if err != nil {
		return failed("the driver", err)
	}
	if now, err := ds.get(d.name); err != nil || now != d {
		return nil //nolint:nilerr // it has gone meanwhile
	}
	next := &driver{name: d.name, id: d.id, topology: d.topology, most: min(info.MaxVolumesPerNode, math.MaxInt32)}
	return ds.books.enter(ctx, next)
}

// overfull returns the attacher's refusal of a volume, as one that ends the pod if the node is full and the driver's limits can change
// (KEP-4876): then it is asked for the limit at once, so that the next pod goes elsewhere.
func (m *Mounter) overfull(ctx context.Context, j *job, refused error) error {
	var w *Waiting
	if !errors.As(refused, &w) || !w.full || j.about == nil || j.about.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
		return refused
	}
	if err := m.Drivers.renew(ctx, j.d); err != nil {
		m.log.Warn("ask a CSI driver how many volumes the node can have", "driver", j.d.name, "err", err)
	}
	return &FullError{j.Name, errors.New(w.text)}
}

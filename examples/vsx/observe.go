package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

// A world is both switches as they were read.
type world struct {
	primary, secondary observed
}

// observed is one switch. What the spec does not name is not read.
type observed struct {
	err    error // it could not be read; nothing else is set
	client *aoscx.Client
	system aoscx.System
	vrfs   []string
	vlans  []string
	ports  map[string]*aoscx.Interface // nil: there is none of that name
	vsx    *aoscx.VSX                  // nil: it is in no pair
	saved  bool
}

// readLimit bounds how long a switch may take to tell what it is.
const readLimit = 15 * time.Second

// observe reads both switches at once. That one does not answer is no error: the plan must know it.
func (o *operator) observe(ctx context.Context, p *VSXPair) (world, error) {
	var w world
	var wait sync.WaitGroup
	read := func(d Device, into *observed) {
		ctx, cancel := context.WithTimeout(ctx, readLimit)
		defer cancel()
		c, err := o.client(ctx, p.Namespace, d)
		if err == nil {
			*into, err = o.read(ctx, c, &p.Spec)
		}
		if err != nil {
			*into = observed{err: err}
		}
	}
	wait.Go(func() { read(p.Spec.Primary, &w.primary) })
	wait.Go(func() { read(p.Spec.Secondary, &w.secondary) })
	wait.Wait()
	return w, ctx.Err()
}

// read asks a switch for what the spec is about.
func (o *operator) read(ctx context.Context, c *aoscx.Client, s *VSXPairSpec) (w observed, err error) {
	w = observed{client: c, ports: map[string]*aoscx.Interface{}}
	if w.system, err = c.System(ctx); err != nil {
		return w, fmt.Errorf("read the system: %w", err)
	}
	if w.vsx, err = c.VSX(ctx); err != nil {
		return w, fmt.Errorf("read vsx: %w", err)
	}
	vrfs, err := c.Names(ctx, "system/vrfs")
	if err != nil {
		return w, fmt.Errorf("list the VRFs: %w", err)
	}
	vlans, err := c.Names(ctx, "system/vlans")
	if err != nil {
		return w, fmt.Errorf("list the VLANs: %w", err)
	}
	w.vrfs, w.vlans = vrfs, vlans
	for _, name := range s.interfaces() {
		if w.ports[name], err = c.Interface(ctx, name); err != nil {
			return w, fmt.Errorf("read the interface %s: %w", name, err)
		}
	}
	w.saved, err = o.saved(ctx, c, w.system.Changed.String())
	return w, err
}

// interfaces are those that the spec is about.
func (s *VSXPairSpec) interfaces() []string {
	list := append([]string{s.Keepalive.Port, lagName(s.InterSwitchLink.LAG)}, s.InterSwitchLink.Ports...)
	for _, m := range s.MCLAGs {
		list = append(append(list, lagName(m.ID)), m.Ports...)
	}
	for _, g := range s.Gateways {
		list = append(list, vlanName(g.VLAN))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func lagName(id int) string  { return fmt.Sprintf("lag%d", id) }
func vlanName(id int) string { return fmt.Sprintf("vlan%d", id) }

// saved says whether the switch would begin with its present configuration after a restart. Both configurations are large, so they are
// compared once for each change.
func (o *operator) saved(ctx context.Context, c *aoscx.Client, changed string) (bool, error) {
	o.mu.Lock()
	known := changed != "" && o.equal[c.Address] == changed
	o.mu.Unlock()
	if known {
		return true, nil
	}
	same, err := c.Saved(ctx)
	if err != nil {
		return false, fmt.Errorf("compare the running and the startup configuration: %w", err)
	}
	if same {
		o.mu.Lock()
		o.equal[c.Address] = changed
		o.mu.Unlock()
	}
	return same, nil
}

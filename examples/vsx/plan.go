package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/kloop-dev/kloop/engine"
	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

// A side is one of the two switches.
type side int

const (
	primary side = iota
	secondary
)

func (s side) String() string { return [...]string{"primary", "secondary"}[s] }

func (s side) other() side { return 1 - s }

func (w *world) at(s side) *observed {
	if s == primary {
		return &w.primary
	}
	return &w.secondary
}

func (p *VSXPairSpec) at(s side) *Device {
	if s == primary {
		return &p.Primary
	}
	return &p.Secondary
}

// A risk says what a change may interrupt, and so what must hold before it is made; see blocked.
type risk int

const (
	additive  risk = iota // carries nothing yet: a VRF, a VLAN, a LAG that is down, vsx on a switch that is in no pair
	text                  // a description
	keepalive             // the keepalive path
	raise                 // the ISL is brought up
	link                  // the ISL may be interrupted
	pair                  // settings of the pair
	traffic               // a multi-chassis LAG or a gateway
	save                  // the configuration is kept over restarts
)

// A change is one thing that a switch lacks.
type change struct {
	on   side
	what string
	risk risk
	lag  string // the multi-chassis LAG that may be interrupted
	do   func(context.Context, *aoscx.Client) error
}

// plan says what is missing, in order: first what may be done now, then what waits, with what for. It is pure.
func plan(p *VSXPair, w world) (steps []engine.Step) {
	if p.DeletionTimestamp != nil {
		return nil // the switches stay as they are
	}
	if why := frozen(&p.Spec, &w); why != "" {
		return []engine.Step{{Name: why}}
	}
	var later []engine.Step
	for _, c := range missing(&p.Spec, &w) {
		name := fmt.Sprintf("%s: %s", nameOf(p, &w, c.on), c.what)
		if why := blocked(c, &w); why != "" {
			later = append(later, engine.Step{Name: name + " (when " + why + ")"})
			continue
		}
		steps = append(steps, engine.Step{Name: name, Do: func(ctx context.Context) error { return perform(ctx, c, &w) }})
	}
	return append(append(steps, later...), awaited(&w)...)
}

func nameOf(p *VSXPair, w *world, s side) string {
	if h := w.at(s).system.Hostname; h != "" {
		return h
	}
	return p.Spec.at(s).Address
}

// frozen says why neither switch may be touched; "": they may.
func frozen(p *VSXPairSpec, w *world) string {
	a, b := &w.primary, &w.secondary
	for _, s := range []side{primary, secondary} {
		if err := w.at(s).err; err != nil {
			return fmt.Sprintf("the %s answers again: while a switch can't be read nothing is changed on the other: %v", s, err)
		}
	}
	switch {
	case a.system.MAC != "" && a.system.MAC == b.system.MAC:
		return "two switches: both addresses lead to " + a.system.Hostname
	case a.system.Platform != b.system.Platform:
		return fmt.Sprintf("switches of one platform: they are %s and %s", a.system.Platform, b.system.Platform)
	case a.system.Software != b.system.Software:
		return fmt.Sprintf("the same software on both: they run %s and %s", a.system.Software, b.system.Software)
	}
	for _, s := range []side{primary, secondary} {
		v := w.at(s).vsx
		switch {
		case v == nil:
		case v.Role != s.String():
			return fmt.Sprintf("a person: the %s has the role %q; roles are not swapped under traffic: change the spec or the switches", s, v.Role)
		case v.ISL.One() != lagName(p.InterSwitchLink.LAG):
			return fmt.Sprintf("a person: the ISL of the %s is %s, and changing that takes its vsx configuration away", s, v.ISL.One())
		}
	}
	for _, s := range []side{primary, secondary} {
		if why := taken(p, w.at(s)); why != "" {
			return fmt.Sprintf("a person: on the %s %s", s, why)
		}
	}
	if w.split() && !(a.established() && b.established()) {
		return "a person, or the switches themselves: the pair is split and the keepalive is lost, both may forward"
	}
	return ""
}

// taken says which port is not there, or serves something else; "": none.
func taken(p *VSXPairSpec, o *observed) string {
	serves := func(port, lag string) string {
		switch i := o.ports[port]; {
		case i == nil:
			return "there is no port " + port
		case key(i) != "" && key(i) != lag:
			return fmt.Sprintf("the port %s is a member of %s", port, key(i))
		case lag != "" && i.IP4 != "":
			return fmt.Sprintf("the port %s has the address %s", port, i.IP4)
		}
		return ""
	}
	why := serves(p.Keepalive.Port, "")
	for _, port := range p.InterSwitchLink.Ports {
		why = cmp.Or(why, serves(port, lagName(p.InterSwitchLink.LAG)))
	}
	for _, m := range p.MCLAGs {
		for _, port := range m.Ports {
			why = cmp.Or(why, serves(port, lagName(m.ID)))
		}
	}
	return why
}

// established says that the keepalive reaches the peer.
func (o *observed) established() bool {
	return o.vsx != nil && o.vsx.KeepaliveState.State == "in_sync_established"
}

// inSync says that the ISL is in sync.
func (o *observed) inSync() bool { return o.vsx != nil && o.vsx.Oper.ISL == "in_sync" }

// carries says that the switch forwards as a member of a pair that is whole: its delay after a return is over.
func (o *observed) carries() bool { return o.inSync() && o.vsx.Oper.Device == "peer_established" }

// split says that the switches were a pair and lost each other. One that says so alone has a peer that is new, or restarted.
func (w *world) split() bool {
	lost := func(o *observed) bool {
		return o.vsx != nil && (o.vsx.Oper.Device == "split_system_primary" || o.vsx.Oper.Device == "split_system_secondary")
	}
	return lost(&w.primary) && lost(&w.secondary)
}

// forming says that the switches were no pair yet: there is nothing to interrupt.
func (w *world) forming() bool {
	alone := func(o *observed) bool {
		return o.vsx == nil || o.vsx.Oper.Device == "waiting_for_peer" || o.vsx.Oper.Device == ""
	}
	return alone(&w.primary) && alone(&w.secondary)
}

// blocked says what must hold before a change; "": it may be made now. frozen has been asked before.
func blocked(c change, w *world) string {
	a, b := &w.primary, &w.secondary
	whole := a.carries() && b.carries()
	switch c.risk {
	case additive, text:
		return ""
	case keepalive:
		if a.established() && b.established() && !(a.inSync() && b.inSync()) {
			return "the ISL is in sync" // until then the keepalive is all they have
		}
	case raise:
		if !(a.established() && b.established()) {
			return "the keepalive is established"
		}
	case link:
		if !(a.established() && b.established()) {
			return "the keepalive is established"
		}
		if !w.forming() && !w.split() && !whole {
			return "both switches forward"
		}
	case pair:
		if !whole {
			return "both switches forward"
		}
	case traffic:
		if !whole {
			return "both switches forward"
		}
		own, peer := w.at(c.on).ports[c.lag], w.at(c.on.other()).ports[c.lag]
		if own != nil && own.LinkState == "up" && (peer == nil || peer.LinkState != "up") {
			return c.lag + " is up on the other switch"
		}
	case save:
		if !whole {
			return "both switches forward"
		}
	}
	return ""
}

// errMoved is an attempt that came too late.
var errMoved = errors.New("the pair is not any more as it was when the step was planned: it is planned anew")

// perform makes a change, if the pair is still as it was when that was planned: reading a switch takes its time.
func perform(ctx context.Context, c change, w *world) error {
	now := *w
	for _, s := range []side{primary, secondary} {
		o := now.at(s)
		v, err := o.client.VSX(ctx)
		if err != nil {
			return fmt.Errorf("look once more at the %s: %w", s, err)
		}
		was := o.vsx
		if c.lag != "" {
			o.ports = maps.Clone(o.ports)
			if o.ports[c.lag], err = o.client.Interface(ctx, c.lag); err != nil {
				return fmt.Errorf("look once more at the %s: %w", s, err)
			}
		}
		if (was == nil) != (v == nil) || was != nil && (was.Role != v.Role || was.Oper != v.Oper || was.KeepaliveState != v.KeepaliveState) {
			return errMoved
		}
	}
	if blocked(c, &now) != "" {
		return errMoved
	}
	return c.do(ctx, now.at(c.on).client)
}

// awaited lists what the switches have yet to do by themselves.
func awaited(w *world) (steps []engine.Step) {
	for _, s := range []side{primary, secondary} {
		o := w.at(s)
		switch {
		case o.vsx == nil:
		case !o.established():
			steps = append(steps, engine.Step{Name: fmt.Sprintf("the keepalive of the %s (%s)", s, o.vsx.KeepaliveState.State)})
		case !o.inSync():
			steps = append(steps, engine.Step{Name: fmt.Sprintf("the ISL of the %s (%s)", s, o.vsx.Oper.ISL)})
		case !o.carries():
			steps = append(steps, engine.Step{Name: fmt.Sprintf("the %s (%s)", s, o.vsx.Oper.Device)})
		case o.vsx.Oper.Sync != "in-sync" && o.vsx.Oper.Sync != "disabled":
			steps = append(steps, engine.Step{Name: fmt.Sprintf("the configuration sync of the %s (%s)", s, o.vsx.Oper.Sync)})
		}
	}
	return steps
}

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

// TestGuards: what the plan does, and what it waits for, when a pair that was whole is not as it was.
func TestGuards(t *testing.T) {
	states := func(device, isl, keepalive string) func(*observed) {
		return func(o *observed) {
			o.vsx.Oper.Device, o.vsx.Oper.ISL, o.vsx.KeepaliveState.State = device, isl, keepalive
		}
	}
	both := func(do func(*observed)) func(*world) { return func(w *world) { do(&w.primary); do(&w.secondary) } }
	port := func(name string, do func(*aoscx.Interface)) func(*observed) {
		return func(o *observed) {
			i := *o.ports[name]
			do(&i)
			o.ports[name] = &i
		}
	}
	lagDown := port("lag256", func(i *aoscx.Interface) { i.Admin, i.UserConfig = "down", nil })
	split := both(states("split_system_primary", "out_of_sync", "in_sync_established"))
	for _, tt := range []struct {
		name string
		do   []func(*world)
		want string // the first step
		acts bool   // and whether it is done now
	}{
		{"as wanted", nil, "", false},
		{"one does not answer", []func(*world){func(w *world) { w.secondary = observed{err: errors.New("no route")} }}, "no route", false},
		{"other software", []func(*world){func(w *world) { w.primary.system.Software = "GL.10.14" }}, "the same software", false},
		{"one switch twice", []func(*world){func(w *world) { w.primary.system.MAC = w.secondary.system.MAC }}, "two switches", false},
		{"roles are swapped", []func(*world){func(w *world) { w.primary.vsx.Role = "secondary" }}, "roles are not swapped", false},
		{"another ISL", []func(*world){func(w *world) { w.primary.vsx.ISL = aoscx.Ref{"lag9"} }}, "the ISL of the primary is lag9", false},
		{"split, keepalive lives, the ISL is shut", []func(*world){split, func(w *world) { lagDown(&w.primary) }},
			"core01: lag256: no shutdown", true},
		{"split, no keepalive", []func(*world){both(states("split_system_primary", "out_of_sync", "failed")),
			func(w *world) { lagDown(&w.primary) }}, "both may forward", false},
		{"the ISL is shut, no keepalive", []func(*world){both(states("waiting_for_peer", "out_of_sync", "configured")),
			func(w *world) { lagDown(&w.primary) }}, "when the keepalive is established", false},
		{"a LAG while the other returns", []func(*world){
			func(w *world) { states("sync_secondary_linkup_delay", "in_sync", "in_sync_established")(&w.secondary) },
			func(w *world) { port("lag1", func(i *aoscx.Interface) { i.LACP = "" })(&w.primary) }}, "when both switches forward", false},
		{"a LAG that is down on the other", []func(*world){func(w *world) {
			port("lag1", func(i *aoscx.Interface) { i.LACP = "" })(&w.primary)
			port("lag1", func(i *aoscx.Interface) { i.LinkState = "down" })(&w.secondary)
		}}, "when lag1 is up on the other switch", false},
		{"the keepalive alone is left", []func(*world){split, func(w *world) {
			port("1/1/48", func(i *aoscx.Interface) { i.IP4 = "10.0.0.1/24" })(&w.secondary)
		}}, "when the ISL is in sync", false},
		{"a port of another LAG", []func(*world){func(w *world) {
			port("1/1/55", func(i *aoscx.Interface) { i.Other = map[string]any{"lacp-aggregation-key": 7.0} })(&w.primary)
		}}, "a member of lag7", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 0)
				h.settle(10 * time.Minute)
				w, err := h.op.observe(t.Context(), h.pair)
				if err != nil {
					t.Fatal(err)
				}
				for _, do := range tt.do {
					do(&w)
				}
				steps := plan(h.pair, w)
				switch {
				case tt.want == "" && len(steps) == 0:
				case len(steps) == 0 || !strings.Contains(steps[0].Name, tt.want) || (steps[0].Do != nil) != tt.acts:
					t.Errorf("the plan is %v, want first %q", steps, tt.want)
				}
			})
		})
	}
}

// TestSecondLook: a step that comes too late is not done.
func TestSecondLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 0)
		h.settle(10 * time.Minute)
		h.lab.Switch(0).CLI("system/interfaces/lag1", "lacp", "passive")
		w, err := h.op.observe(t.Context(), h.pair)
		if err != nil {
			t.Fatal(err)
		}
		steps := plan(h.pair, w)
		if len(steps) == 0 || steps[0].Do == nil {
			t.Fatalf("the plan is %v", steps)
		}
		h.lab.Cut("1/1/55", true)
		h.lab.Cut("1/1/56", true)
		had := h.lab.Writes()
		if err := steps[0].Do(t.Context()); !errors.Is(err, errMoved) || !slices.Equal(h.lab.Writes(), had) {
			t.Errorf("a LAG was changed on a pair that is split: %v", err)
		}
	})
}

// TestRefs: references are understood in each form that releases have.
func TestRefs(t *testing.T) {
	for text, want := range map[string]string{
		`"/rest/v10.04/system/interfaces/1%2F1%2F55"`:                      "1/1/55",
		`["/rest/v10.04/system/vlans/20", "/rest/v10.04/system/vlans/10"]`: "10 20",
		`{"KEEPALIVE": "/rest/v10.04/system/vrfs/KEEPALIVE"}`:              "KEEPALIVE",
		`{"1/1/56": {"name": "1/1/56"}, "1/1/55": {"name": "1/1/55"}}`:     "1/1/55 1/1/56",
		`null`: "", `{}`: "", `7`: "",
	} {
		t.Run(text, func(t *testing.T) {
			var r aoscx.Ref
			if err := r.UnmarshalJSON([]byte(text)); err != nil || strings.Join(r, " ") != want {
				t.Errorf("%s is %q, %v; want %q", text, r, err, want)
			}
		})
	}
}

// TestShow: the console prints what the guide has its readers look for.
func TestShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 0)
		h.settle(10 * time.Minute)
		want := `VSX Operational State
---------------------
  ISL channel             : In-Sync
  ISL mgmt channel        : operational
  Config Sync Status      : in-sync
  NAE                     : peer_reachable
  HTTPS Server            : peer_reachable

Attribute           Local               Peer
------------        --------            --------
ISL link            lag256              lag256
ISL version         2                   2
System MAC          90:20:c2:bc:ed:00   90:20:c2:bc:ed:01
Platform            8325                8325
Software Version    GL.10.13.1000       GL.10.13.1000
Device Role         primary             secondary
`
		if got := h.lab.Switch(0).ShowVSXStatus(); got != want {
			t.Errorf("it prints\n%s", got)
		}
	})
}

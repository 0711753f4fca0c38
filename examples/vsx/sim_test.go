package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/examples/vsx/lab"
)

var (
	seeds = flag.Int("seeds", 30, "how many simulations run")
	first = flag.Uint64("seed", 1, "the first seed")
)

// weather is what happens to the switches, the wires and the operator in a simulation.
type weather struct {
	*house
	dice *rand.Rand
	said []string
}

func (w *weather) say(format string, args ...any) {
	w.said = append(w.said, time.Now().UTC().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

// person are the changes that somebody makes on a console. No one takes a switch out of the pair or swaps roles: that is for people alone.
var person = []struct {
	path, attribute string
	value           any
}{
	{"system/interfaces/lag256", "admin", "down"},
	{"system/interfaces/lag256", "description", "do not touch"},
	{"system/interfaces/lag256", "lacp", "passive"},
	{"system/interfaces/lag256", "vlan_mode", "access"},
	{"system/interfaces/1/1/55", "admin", "down"},
	{"system/interfaces/1/1/48", "admin", "down"},
	{"system/interfaces/1/1/48", "ip4_address", "192.168.1.9/24"},
	{"system/interfaces/1/1/1", "admin", "down"},
	{"system/interfaces/lag1", "admin", "down"},
	{"system/interfaces/lag1", "lacp", nil},
	{"system/interfaces/vlan10", "vsx_virtual_gw_mac_v4", "00:00:5e:00:01:99"},
	{"system/vsx", "linkup_delay_timer", 600.0},
	{"system/vsx", "keepalive_peer_ip", "192.168.168.9"},
	{"system/vsx", "config_sync_features", nil},
}

// blow has things happen until the time is over.
func (w *weather) blow(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Duration(1+w.dice.IntN(60)) * time.Second) {
		i := w.dice.IntN(2)
		s := w.lab.Switch(i)
		switch n := w.dice.IntN(15); n {
		case 12: // the ISL and the keepalive are lost together, and somebody is at the console
			w.say("all cables between the switches are out")
			w.cables(true)
			p := person[w.dice.IntN(len(person))]
			time.Sleep(time.Duration(w.dice.IntN(20)) * time.Second)
			s.CLI(p.path, p.attribute, p.value)
			time.Sleep(time.Duration(w.dice.IntN(60)) * time.Second)
			w.cables(false)
		case 13: // a switch is new: its configuration is gone
			w.say("%d is replaced", i)
			s.Replace()
		case 0:
			w.say("%d restarts", i)
			s.Reboot()
		case 1:
			w.say("%d is off", i)
			s.Power(false)
			time.Sleep(time.Duration(w.dice.IntN(300)) * time.Second)
			s.Power(true)
		case 2, 3:
			port := []string{"1/1/55", "1/1/56", "1/1/48"}[w.dice.IntN(3)]
			w.say("cable %s is out", port)
			w.lab.Cut(port, true)
			time.Sleep(time.Duration(w.dice.IntN(60)) * time.Second)
			w.lab.Cut(port, false)
		case 4:
			w.say("the sync is slow")
			w.lab.Slow(time.Duration(w.dice.IntN(60)) * time.Second)
		case 5:
			s.Logout()
		case 6:
			s.ReadOnly(true)
			time.Sleep(time.Duration(w.dice.IntN(60)) * time.Second)
			s.ReadOnly(false)
		default:
			p := person[w.dice.IntN(len(person))]
			w.say("somebody on %d: %s %s %v", i, p.path, p.attribute, p.value)
			s.CLI(p.path, p.attribute, p.value)
		}
	}
}

func (w *weather) cables(out bool) {
	for _, port := range []string{"1/1/48", "1/1/55", "1/1/56"} {
		w.lab.Cut(port, out)
	}
}

// end has the weather be over: cables are in, switches are on. Where the pair is split without keepalive a person has to come: the
// operator must not choose who goes on.
func (w *weather) end() {
	w.cables(false)
	w.lab.Slow(0)
	w.wire.Mishap, w.crash = nil, 0
	w.run(5*time.Minute, w.isReady)
	if strings.Contains(w.ready.Message, "both may forward") {
		w.say("a person brings the ISL up")
		for i := range 2 {
			for _, name := range []string{"lag256", "1/1/55", "1/1/56"} {
				w.lab.Switch(i).CLI("system/interfaces/"+name, "admin", "up")
			}
		}
	}
}

// simulate runs a pair through a seed's weather.
func simulate(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, seed)
		w := &weather{house: h, dice: rand.New(rand.NewPCG(seed, 3))}
		mishaps := perUnit(seed, 4)
		if seed%3 != 0 { // the others have their weather while they are set up
			h.settle(10 * time.Minute)
		}
		h.wire.Mishap = func(unit int) lab.Mishap {
			if n := mishaps[unit].IntN(100); n < 4 {
				return lab.Mishap(1 + n)
			}
			return lab.Nothing
		}
		h.crash = 0.1
		blown := make(chan struct{})
		go func() {
			defer close(blown)
			w.blow(30 * time.Minute)
		}()
		h.run(45*time.Minute, nil)
		<-blown
		w.end()
		if !h.run(2*time.Hour, h.isReady) {
			t.Errorf("never as wanted: %s: %s", h.ready.Reason, h.ready.Message)
		}
		had := len(h.lab.Writes())
		h.run(10*time.Minute, nil)
		if more := h.lab.Writes(); len(more) != had {
			t.Errorf("does not rest: %v", more[had:])
		}
		h.judged()
		if t.Failed() {
			t.Logf("seed %d\n%s\n%s", seed, strings.Join(w.said, "\n"), strings.Join(h.lab.Writes(), "\n"))
		}
	})
}

// TestSeeds: whatever the weather, the operator keeps to the judge's rules, and the pair is as wanted in the end. A seed is the same again.
func TestSeeds(t *testing.T) {
	t.Attr("retry", "never")
	count := uint64(*seeds)
	if testing.Short() {
		count = min(count, 5)
	}
	for seed := *first; seed < *first+count; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { simulate(t, seed) }) {
			t.Fatalf("go test ./examples/vsx -run TestSeeds -seed %d -seeds 1", seed)
		}
	}
}

// TestJudge: the judge sees each thing that an operator must not do.
func TestJudge(t *testing.T) {
	write := func(h *house, host, path string, change map[string]any) {
		c, err := h.op.client(h.t.Context(), "default", Device{Address: "https://" + host, Secret: "switches"})
		if err == nil {
			err = c.Edit(h.t.Context(), path, change)
		}
		if err != nil {
			h.t.Error(err)
		}
	}
	up, down := map[string]any{"admin": "up"}, map[string]any{"user_config": map[string]any{"admin": "down"}}
	for _, tt := range []struct {
		name, want string
		do         func(h *house)
	}{
		{"both ends at once", "under way", func(h *house) {
			h.lab.Switch(0).Writing(true)
			write(h, "core02", "system/interfaces/1%2F1%2F2", up)
		}},
		{"the other is off", "is off", func(h *house) {
			h.lab.Switch(0).Power(false)
			time.Sleep(time.Minute)
			write(h, "core02", "system/interfaces/1%2F1%2F2", up)
		}},
		{"split brain", "without keepalive", func(h *house) {
			for _, port := range []string{"1/1/48", "1/1/55", "1/1/56"} {
				h.lab.Cut(port, true)
			}
			time.Sleep(time.Minute)
			write(h, "core02", "system/interfaces/1%2F1%2F2", up)
		}},
		{"ISL without keepalive", "touched the ISL", func(h *house) {
			h.lab.Cut("1/1/48", true)
			time.Sleep(time.Minute)
			write(h, "core02", "system/interfaces/lag256", down)
		}},
		{"the other returns", "does not forward", func(h *house) {
			h.lab.Switch(0).Reboot()
			time.Sleep(100 * time.Second)
			write(h, "core02", "system/interfaces/lag1", map[string]any{"lacp": "passive"})
		}},
		{"the last leg", "down on the other", func(h *house) {
			h.lab.Switch(0).CLI("system/interfaces/lag1", "admin", "down")
			time.Sleep(time.Minute)
			write(h, "core02", "system/interfaces/lag1", map[string]any{"interfaces": replaced{}})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 0)
				h.settle(10 * time.Minute)
				time.Sleep(time.Minute)
				h.judged()
				h.t = t
				tt.do(h)
				if f := h.lab.Faults(); len(f) != 1 || !strings.Contains(f[0], tt.want) {
					t.Errorf("the judge says %q, want %q", f, tt.want)
				}
			})
		})
	}
}

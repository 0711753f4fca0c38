package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/examples/vsx/lab"
)

// guide is the pair of the guide, with a server and a gateway.
const guide = `
metadata: {name: core, namespace: default}
spec:
  primary: {address: "https://core01", secret: switches, keepaliveAddress: 192.168.168.1/24}
  secondary: {address: "https://core02", secret: switches, keepaliveAddress: 192.168.168.2/24}
  interSwitchLink: {lag: 256, ports: [1/1/55, 1/1/56], nativeVLAN: 1, description: VSX-LAG}
  keepalive: {vrf: KEEPALIVE, port: 1/1/48, description: VSX-keepalive-Link}
  linkupDelay: 30
  configSync: {features: [vsx-global]}
  vlans: [{id: 10, name: servers}]
  mcLAGs: [{id: 1, ports: [1/1/1], nativeVLAN: 1, vlans: [10]}]
  activeGateways:
  - {vlan: 10, ip: 10.0.10.1, mac: "00:00:5e:00:01:01", primaryAddress: 10.0.10.2/24, secondaryAddress: 10.0.10.3/24}
`

func pairOf(t *testing.T, text string) *VSXPair {
	t.Helper()
	p := &VSXPair{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A house is a lab with an operator that keeps its pair, in simulated time.
type house struct {
	t    *testing.T
	lab  *lab.Lab
	wire *lab.Wire
	pair *VSXPair
	op   *operator

	dice   *rand.Rand
	crash  float64 // how likely an operator dies in a pass
	ready  metav1.Condition
	passes int
}

func newHouse(t *testing.T, seed uint64) *house {
	h := &house{t: t, lab: lab.New(time.Now), pair: pairOf(t, guide), dice: rand.New(rand.NewPCG(seed, 1))}
	wires := perUnit(seed, 2)
	most := []int{50, 400}[seed%2] // of the milliseconds that a request takes each way
	h.wire = &lab.Wire{Lab: h.lab, Latency: func(unit int) time.Duration { return time.Duration(wires[unit].IntN(most)) * time.Millisecond }}
	h.lab.References(seed%3 == 0)
	h.start()
	return h
}

// perUnit are dice for each switch: both are asked at the same time, and a seed is to play the same again.
func perUnit(seed, of uint64) (list [2]*rand.Rand) {
	for i := range list {
		list[i] = rand.New(rand.NewPCG(seed, of+100*uint64(i)))
	}
	return list
}

// start has a new operator, which knows nothing.
func (h *house) start() {
	h.op = newOperator(func(context.Context, string, string) (map[string][]byte, error) {
		return map[string][]byte{"username": []byte("admin"), "password": []byte("admin")}, nil
	}, func(string) http.RoundTripper { return h.wire })
}

// run has the operator look again and again until the time is over, or until says so. It pauses as the engine does.
func (h *house) run(limit time.Duration, until func() bool) bool {
	pause, end := 10*time.Millisecond, time.Now().Add(limit)
	for time.Now().Before(end) {
		ctx, cancel := context.WithCancel(h.t.Context())
		crashed := h.dice.Float64() < h.crash
		if crashed {
			time.AfterFunc(time.Duration(h.dice.IntN(3000))*time.Millisecond, cancel)
		}
		ready, again, err := h.op.loop(10*time.Second).Pass(ctx, h.pair)
		cancel()
		h.ready, h.passes = ready, h.passes+1
		if until != nil && until() {
			return true
		}
		switch {
		case crashed:
			h.start()
		case err != nil:
			again, pause = pause, min(2*pause, time.Minute)
		default:
			pause = 10 * time.Millisecond
		}
		time.Sleep(again)
	}
	return until == nil
}

func (h *house) isReady() bool { return h.ready.Status == metav1.ConditionTrue }

// settle runs until the pair is as wanted.
func (h *house) settle(limit time.Duration) {
	h.t.Helper()
	if !h.run(limit, h.isReady) {
		h.t.Fatalf("not as wanted within %v: %s: %s\n%s", limit, h.ready.Reason, h.ready.Message, strings.Join(h.lab.Writes(), "\n"))
	}
}

// judged fails the test for what the operator must not do.
func (h *house) judged() {
	h.t.Helper()
	for _, f := range h.lab.Faults() {
		h.t.Error(f)
	}
}

// TestGuide: from two switches as they leave the factory to the pair of the guide, and then nothing is written any more.
func TestGuide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 0)
		h.settle(10 * time.Minute)
		h.judged()
		st := h.pair.Status
		if st.ISL != "In-Sync" || st.Keepalive != "Established" || st.ConfigSync != "In-Sync" || st.Peer != "reachable" ||
			st.Primary.State != "Peer-Established" || st.Secondary.Role != "secondary" {
			t.Errorf("the status says %+v", st)
		}
		writes := h.lab.Writes()
		t.Logf("%d writes, %d passes:\n%s", len(writes), h.passes, strings.Join(writes, "\n"))
		h.run(time.Hour, nil)
		if more := h.lab.Writes(); len(more) != len(writes) {
			t.Errorf("a pair as wanted is written to: %v", more[len(writes):])
		}
		for i := range 2 {
			h.lab.Switch(i).Reboot() // saved: it comes back as it was
		}
		h.run(10*time.Second, nil)
		h.settle(10 * time.Minute)
		if more := h.lab.Writes(); len(more) != len(writes) {
			t.Errorf("after a restart of both is written: %v", more[len(writes):])
		}
		h.judged()
	})
}

package loadbalancer

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

var moves = map[move]string{nothing: "nothing", hush: "hush", take: "take", letGo: "let go", confirm: "confirm", ask: "ask",
	answer:   "answer",
	announce: "announce"}

func leaseOf(rev int, holder string, nodes ...string) *coordinationv1.Lease {
	var list []string
	for i, n := range nodes {
		list = append(list, fmt.Sprintf(`{"node":%q,"address":"10.0.0.%d"}`, n, i+1))
	}
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(rev),
		Annotations: map[string]string{wellknown.AnnouncedCandidates: "[" + strings.Join(list, ",") + "]"}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

// TestDecide holds the node "me" to what the package comment says.
func TestDecide(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name  string
		lease *coordinationv1.Lease
		edit  func(d *duty, now time.Time)
		after time.Duration // since the Lease was seen
		want  string        // the move, and when to look again since the Lease was seen
	}{
		{"free, the first", leaseOf(1, "", "me", "a"), nil, 0, "take"},
		{"free, the second waits", leaseOf(1, "", "a", "me"), nil, 0, "nothing 150ms"},
		{"free, the second, after its turn", leaseOf(1, "", "a", "me"), nil, 150 * time.Millisecond, "take"},
		{"free, no candidate", leaseOf(1, "", "a"), nil, s, "nothing"},
		{"a write is under way", leaseOf(1, "", "me"), func(d *duty, _ time.Time) { d.busy = true }, s, "nothing"},
		{"a write failed", leaseOf(1, "", "me"), func(d *duty, now time.Time) { d.retry = now.Add(2 * s) }, s, "nothing 2s"},
		{"held by another, never heard", leaseOf(1, "a", "a", "me"), nil, time.Hour, "nothing"},
		{"held by another, heard", leaseOf(1, "a", "a", "me"), func(d *duty, now time.Time) { d.heard = now }, 900 * time.Millisecond,
			"nothing 1s"},
		{"held by another, silent", leaseOf(1, "a", "a", "me"), func(d *duty, now time.Time) { d.heard = now }, s, "take"},
		{"held by another, silent, others come first", leaseOf(1, "a", "a", "b", "me"), func(d *duty, now time.Time) { d.heard = now }, s,
			"nothing 1.15s"},
		{"the holder may no longer", leaseOf(1, "x", "a", "me"), nil, 4 * s, "nothing 5.15s"},
		{"the holder may no longer, and keeps it", leaseOf(1, "x", "me"), nil, 5 * s, "take"},
		{"lost while answering", leaseOf(1, "a", "a", "me"), func(d *duty, _ time.Time) { d.phase = answering }, 0, "hush"},
		{"ours", leaseOf(1, "me", "me"), nil, 0, "ask"},
		{"ours, asked once", leaseOf(1, "me", "me"), func(d *duty, now time.Time) {
			d.phase, d.asked, d.next = probing, 1, now.Add(probeEvery)
		}, 0, "nothing 50ms"},
		{"ours, asked thrice", leaseOf(1, "me", "me"), func(d *duty, now time.Time) { d.phase, d.asked, d.next = probing, probes, now },
			0, "answer"},
		{"ours, answering", leaseOf(1, "me", "me"), func(d *duty, now time.Time) { d.phase, d.next = answering, now }, 0, "announce"},
		{"ours, told", leaseOf(1, "me", "me"), func(d *duty, now time.Time) { d.phase, d.told, d.next = answering, tellTimes, now }, 0,
			"nothing"},
		{"ours, no candidate any more, answering", leaseOf(1, "me", "a"), func(d *duty, _ time.Time) { d.phase = answering }, 0, "hush"},
		{"ours, no candidate any more", leaseOf(1, "me", "a"), nil, 0, "let go"},
		{"ours, told to yield", leaseOf(1, "me", "me"), func(d *duty, _ time.Time) { d.phase, d.yielded = answering, 2 }, 0, "hush"},
		{"ours, has yielded", leaseOf(1, "me", "me"), func(d *duty, _ time.Time) { d.yielded = 2 }, 0, "confirm"},
		{"ours, had yielded, and took it again", leaseOf(3, "me", "me"), func(d *duty, _ time.Time) { d.yielded = 2 }, 0, "ask"},
		{"ours, stood still", leaseOf(1, "me", "me"), func(d *duty, _ time.Time) { d.phase, d.doubt = answering, true }, 0, "hush"},
		{"ours, in doubt", leaseOf(1, "me", "me"), func(d *duty, _ time.Time) { d.doubt = true }, 0, "confirm"},
		{"candidates that can't be read", func() *coordinationv1.Lease {
			l := leaseOf(1, "")
			l.Annotations[wellknown.AnnouncedCandidates] = "{"
			return l
		}(), nil, s, "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Unix(1_000, 0)
			d := &duty{}
			d.learn(tt.lease, began)
			if tt.edit != nil {
				tt.edit(d, began)
			}
			m, at := d.decide("me", began.Add(tt.after))
			got := moves[m]
			if m == nothing && !at.IsZero() {
				got += " " + at.Sub(began).String()
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestLearn: an older Lease says nothing; a new holder must be heard anew.
func TestLearn(t *testing.T) {
	now := time.Unix(1_000, 0)
	d := &duty{}
	d.learn(leaseOf(5, "a", "a", "me"), now)
	d.heard = now
	d.learn(leaseOf(4, "me", "a", "me"), now)
	if d.holder != "a" {
		t.Error("an older state was believed")
	}
	d.learn(leaseOf(6, "b", "a", "b", "me"), now.Add(time.Second))
	if d.holder != "b" || !d.heard.IsZero() || d.previous != "10.0.0.1" || !d.outside.IsZero() {
		t.Errorf("%+v", d)
	}
}

func TestChoose(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	eth := func(index int, name string, prefix string) link {
		return link{index: index, name: name, mac: mac, up: true, arp: true, prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)}}
	}
	down, noarp, slave := eth(3, "eth2", "10.3.0.1/24"), eth(4, "eth3", "10.4.0.1/24"), eth(5, "eth4", "10.5.0.1/24")
	down.up, noarp.arp, slave.member = false, false, true
	all := []link{eth(1, "eth0", "10.1.0.1/24"), eth(2, "eth1", "10.2.0.1/24"), down, noarp, slave, eth(6, "cni0", "10.88.0.1/16")}
	for _, tt := range []struct {
		links []link
		addr  string
		only  []string
		want  string
	}{
		{all, "10.1.0.9", nil, "eth0"},
		{all, "10.2.0.9", nil, "eth1"},
		{all, "192.0.2.1", nil, "eth0 eth1"},
		{all, "10.1.0.9", []string{"eth1"}, "eth1"},
		{all, "10.88.0.9", nil, "eth0 eth1"},
		{all, "10.88.0.9", []string{"cni0"}, "cni0"}, // who names it means it
		{all, "10.3.0.9", []string{"eth2"}, ": eth2 is down, or has no carrier"},
		{all, "10.3.0.9", []string{"eth3", "eth4"}, ": eth3 does no ARP (NOARP, or no Ethernet); eth4 belongs to a bridge or bond"},
		{all, "10.3.0.9", []string{"eth9"}, ": none of the interfaces eth9 is there"},
	} {
		list, why := choose(tt.links, netip.MustParseAddr(tt.addr), tt.only)
		var names []string
		for _, l := range list {
			names = append(names, l.name)
		}
		got := strings.Join(names, " ")
		if why != "" {
			got += ": " + why
		}
		if got != tt.want {
			t.Errorf("%s %v: %q, want %q", tt.addr, tt.only, got, tt.want)
		}
	}
}

func TestPackets(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	a := arpPacket{op: arpReply, senderMAC: [6]byte(mac), sender: netip.MustParseAddr("10.0.0.1"), target: netip.MustParseAddr("10.0.0.2")}
	if got, ok := parseARP(a.bytes(broadcast)); !ok || got != a {
		t.Errorf("%+v, %v", got, ok)
	}
	n := ndpPacket{kind: advertisement, flags: flagSolicited | flagOverride, from: netip.MustParseAddr("fe80::1"),
		to:     netip.MustParseAddr("fe80::2"),
		target: netip.MustParseAddr("fd00::1"), mac: mac}
	got, ok := parseNDP(n.bytes())
	if !ok || !bytes.Equal(got.mac, mac) || got.target != n.target || got.flags != n.flags || got.from != n.from || got.kind != n.kind {
		t.Errorf("%+v, %v", got, ok)
	}
	bad := n.bytes()
	bad[len(bad)-1]++
	if _, ok := parseNDP(bad); ok {
		t.Error("a wrong checksum was believed")
	}
	if group := solicited(netip.MustParseAddr("fd00::12:3456")); group.String() != "ff02::1:ff12:3456" ||
		multicastMAC(group).String() != "33:33:ff:12:34:56" {
		t.Errorf("%v %v", group, multicastMAC(group))
	}
	w := word{yield: true, node: "n1", addr: netip.MustParseAddr("fd00::1"), rev: 12, from: netip.MustParseAddr("10.0.0.1")}
	if got, ok := parseWord(w.bytes(), netip.MustParseAddr("::ffff:10.0.0.1")); !ok || got != w {
		t.Errorf("%+v, %v", got, ok)
	}
}

// TestFrozen: a process that stood still answers nothing before its loop ran again.
func TestFrozen(t *testing.T) {
	r := &responder{begin: time.Now().Add(-time.Hour)}
	if r.awake() {
		t.Error("awake, though the loop has not run for an hour")
	}
	if r.alive(); !r.awake() {
		t.Error("not awake, though the loop runs")
	}
}

// FuzzPackets: nothing from the network does harm, and what is understood is written as it was read.
func FuzzPackets(f *testing.F) {
	f.Add((arpPacket{op: arpRequest, sender: netip.MustParseAddr("10.0.0.1"), target: netip.MustParseAddr("10.0.0.2")}).bytes(broadcast))
	f.Add((ndpPacket{kind: solicitation, from: netip.MustParseAddr("fe80::1"), to: netip.MustParseAddr("ff02::1"),
		target: netip.MustParseAddr("fd00::1")}).bytes())
	f.Add([]byte("kloop-lb alive n1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseARP(b); ok {
			if again, ok := parseARP(p.bytes(b[18:24])); !ok || again != p {
				t.Errorf("%+v became %+v", p, again)
			}
		}
		if p, ok := parseNDP(b); ok && p.target.Is6() {
			if again, ok := parseNDP(p.bytes()); !ok || again.target != p.target {
				t.Errorf("%+v became %+v", p, again)
			}
		}
		if w, ok := parseWord(b, netip.MustParseAddr("10.0.0.1")); ok {
			if again, ok := parseWord(w.bytes(), w.from); !ok || again != w {
				t.Errorf("%+v became %+v", w, again)
			}
		}
	})
}

// TestForeign: an address is foreign to a node when no network of the interfaces on which it is answered holds it.
func TestForeign(t *testing.T) {
	on := func(name string, list ...string) (l link) {
		l.name = name
		for _, p := range list {
			l.prefixes = append(l.prefixes, netip.MustParsePrefix(p))
		}
		return l
	}
	for _, tt := range []struct {
		addr, want string
		links      []link
	}{
		{"10.0.0.9", "", []link{on("eth0", "10.0.0.5/24")}},
		{"10.0.1.9", "eth0 10.0.0.5/24", []link{on("eth0", "10.0.0.5/24", "fd00::5/64", "169.254.3.4/16")}},
		{"10.0.1.9", "", []link{on("eth0", "10.0.0.5/24"), on("eth1", "10.0.1.5/24")}},
		{"10.0.2.9", "eth0 10.0.0.5/24, eth1 10.0.1.5/24", []link{on("eth0", "10.0.0.5/24"), on("eth1", "10.0.1.5/24")}},
		{"fd00:1::9", "eth0 fd00::5/64", []link{on("eth0", "10.0.0.5/24", "fe80::1/64", "fd00::5/64")}},
		{"fd00::9", "none", []link{on("eth0", "10.0.0.5/24", "fe80::1/64")}},
	} {
		if got := foreign(tt.links, netip.MustParseAddr(tt.addr)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.addr, got, tt.want)
		}
	}
}

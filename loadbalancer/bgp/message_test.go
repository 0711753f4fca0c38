package bgp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestOpen: what one side says the other reads; what makes no sense is refused with the standard's code.
func TestOpen(t *testing.T) {
	o := open{as: 4200000001, hold: 90 * time.Second, id: netip.MustParseAddr("10.0.0.1"), restart: true, fresh: true,
		offers: []uint16{afi4, afi6}}
	typ, body, err := read(bytes.NewReader(o.bytes()))
	if err != nil || typ != typeOpen {
		t.Fatal(typ, err)
	}
	back, err := readOpen(body)
	if err != nil || back.as != o.as || back.hold != o.hold || back.id != o.id || !back.wide || !back.restart ||
		!back.families[afi4] || !back.families[afi6] {
		t.Errorf("%+v, %v", back, err)
	}
	for _, tt := range []struct{ name, hex, want string }{
		{"no capabilities", "04fc00005a0a00000100", "AS 64512 families map[1:true]"},
		{"version 3", "03fc00005a0a00000100", "2/1"},
		{"a hold time of two seconds", "04fc0000020a00000100", "2/6"},
		{"no hold time", "04fc0000000a00000100", "AS 64512 families map[1:true]"},
		{"router ID 0.0.0.0", "04fc00005a0000000000", "2/3"},
		{"AS 0", "040000005a0a00000100", "2/2"},
		{"too short", "04fc00005a0a000001", "1/2"},
		{"parameters longer than the message", "04fc00005a0a00000104", "2/0"},
		{"an unknown parameter", "04fc00005a0a000001020100", "2/4"},
		{"a capability longer than its place", "04fc00005a0a000001040202fffe", "2/0"},
		{"a capability of 254 octets", "04fc00005a0a000001ff02fd01fb" + strings.Repeat("00", 251), "AS 64512 families map[1:true]"},
		{"a parameter of 254 octets", "04fc00005a0a000001ff02fe" + strings.Repeat("00", 253), "2/0"},
	} {
		b, err := hex.DecodeString(tt.hex)
		if err != nil {
			t.Fatal(tt.name, err)
		}
		o, err := readOpen(b)
		if got := fmt.Sprintf("AS %d families %v, %v", o.as, o.families, err); !strings.Contains(got, tt.want) ||
			strings.HasPrefix(tt.want, "AS") != (err == nil) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	mark := strings.Repeat("ff", 16)
	for _, tt := range []struct{ hex, want string }{
		{mark + "001304", "<nil>"},
		{mark + "0017050001" + "0001", "<nil>"},
		{strings.Repeat("fe", 16) + "001304", "1/1"},
		{mark + "001309", "1/3"},
		{mark + "001302", "1/2"},
		{mark + "001404ff", "1/2"},
		{mark + "100102", "1/2"},
		{mark + "001702", "EOF"},
		{mark[:20], "EOF"},
	} {
		b, _ := hex.DecodeString(tt.hex)
		if _, _, err := read(bytes.NewReader(b)); !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, want %s", tt.hex, err, tt.want)
		}
	}
}

// FuzzPeer: no octets of a peer's crash us, or take more memory than a message has; what is refused has a code.
func FuzzPeer(f *testing.F) {
	f.Add(open{as: 1, id: netip.MustParseAddr("10.0.0.1"), restart: true, offers: []uint16{afi4, afi6}}.bytes())
	f.Add(endOfRIB(afi6))
	f.Add(frame(typeNotification, []byte{6, 2}))
	f.Add(frame(typeOpen, append([]byte{4, 0, 1, 0, 9, 1, 1, 1, 1, 255, 2, 254}, make([]byte, 253)...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			typ, body, err := read(r)
			if err != nil {
				return
			}
			if len(body) > maxLen {
				t.Fatal(len(body))
			}
			switch typ {
			case typeOpen:
				o, err := readOpen(body)
				if err == nil && (o.as == 0 || !o.id.Is4() || o.hold < 0) {
					t.Errorf("%+v", o)
				}
			case typeUpdate:
				_ = checkUpdate(body)
			case typeNotification:
				if readNotification(body).Error() == "" {
					t.Error("a notification without words")
				}
			}
		}
	})
}

func routes(prefixes ...string) (list []Route) {
	for _, p := range prefixes {
		list = append(list, Route{Prefix: netip.MustParsePrefix(p)})
	}
	return list
}

// TestDifference: what is said leads from one state to the other, in messages that a peer takes, and nothing is said twice.
func TestDifference(t *testing.T) {
	s := speech{myAS: 64512, wide: true, hops: map[uint16]netip.Addr{afi4: netip.MustParseAddr("10.0.0.1"),
		afi6: netip.MustParseAddr("fd00::1")}}
	first, now := s.difference(nil, routes("192.0.2.1/32", "192.0.2.2/32", "2001:db8::/64", "192.0.2.1/32"))
	if len(first) != 2 || len(now) != 3 {
		t.Fatalf("%d messages, %d routes", len(first), len(now))
	}
	if again, same := s.difference(now, routes("192.0.2.2/32", "2001:db8::/64", "192.0.2.1/32")); len(again) != 0 || len(same) != 3 {
		t.Errorf("%d messages for nothing", len(again))
	}
	next := routes("192.0.2.1/32", "2001:db8::/64")
	next[0].LocalPref = 5 // is for peers of our AS alone
	gone := withdraw(afi4, []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32")})
	if m, _ := s.difference(now, next); len(m) != 1 || !bytes.Equal(m[0], gone) {
		t.Errorf("%x", m)
	}
	s.internal = true
	if m, _ := s.difference(now, next); len(m) != 3 {
		t.Errorf("%d messages for other attributes", len(m))
	}
	delete(s.hops, afi6)
	if m, left := s.difference(now, next); len(left) != 1 || len(m) != 3 {
		t.Errorf("%d messages, %d routes without a next hop for IPv6", len(m), len(left))
	}
	var many []Route
	for i := range 1000 {
		r := routes(fmt.Sprintf("2001:db8::%x/128", i))[0]
		for c := range 2 * MostCommunities {
			r.Communities, r.Large = append(r.Communities, uint32(c)), append(r.Large, [3]uint32{1, 2, uint32(c)})
		}
		many = append(many, r)
	}
	s.hops[afi6] = netip.MustParseAddr("fd00::1")
	m, _ := s.difference(nil, many)
	for _, b := range m {
		if len(b) > maxLen || int(binary.BigEndian.Uint16(b[16:])) != len(b) || checkUpdate(b[headerLen:]) != nil {
			t.Fatalf("a message of %d octets", len(b))
		}
	}
	if len(m) != 1000/perUpdate {
		t.Errorf("%d messages", len(m))
	}
}

// TestPace: the lower hold time counts, 0 is forever, and there are at least three signs of life in it.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		name                           string
		ours, keep, theirs, hold, beat time.Duration
	}{
		{"nothing said",
			0, 0, 180, 90, 30},
		{"theirs is shorter",
			0, 0, 9, 9, 3},
		{"ours is shorter, with a beat of its own",
			30, 5, 90, 30, 5},
		{"beat slower than a third",
			30, 20, 90, 30, 10},
		{"they never hold",
			0, 0, 0, 0, 0},
		{"we never hold",
			-1, 0, 90, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hold, beat := Peer{Hold: tt.ours * time.Second, Keepalive: tt.keep * time.Second}.pace(tt.theirs * time.Second)
			if hold != tt.hold*time.Second || beat != tt.beat*time.Second {
				t.Errorf("%+v: %s, %s", tt, hold, beat)
			}
		})
	}
}

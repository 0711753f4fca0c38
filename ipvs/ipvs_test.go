package ipvs

import (
	"net/netip"
	"testing"
)

// TestWire reads back what is written for the kernel, cut short at every place too.
func TestWire(t *testing.T) {
	for _, s := range []Service{
		{Key{netip.MustParseAddr("10.96.0.1"), 6, 443, 0}, "lc", Persistent, 10800},
		{Key{netip.MustParseAddr("fd00::1"), 17, 53, 0}, "mh", SourcePort, 0},
		{MarkKey(0x80000001, false), "rr", 0, 0},
		{MarkKey(0x80000001, true), "rr", 0, 0},
	} {
		b := s.attr(true).Serialize()[4:]
		if got, ok := parseService(b); !ok || got != s {
			t.Errorf("%+v, want %+v", got, s)
		}
		for n := range b {
			parseService(b[:n])
		}
	}
}

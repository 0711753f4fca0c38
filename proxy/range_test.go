package proxy

import (
	"net/netip"
	"testing"
)

func TestRange4(t *testing.T) {
	four, six := netip.MustParsePrefix("10.50.3.0/20"), netip.MustParsePrefix("fd00::/112")
	tests := []struct {
		services []netip.Prefix
		want     string
	}{
		{nil, "10.96.0.0/16"},
		{[]netip.Prefix{four}, "10.50.0.0/20"},
		{[]netip.Prefix{six, four}, "10.50.0.0/20"},
	}
	for _, tt := range tests {
		if got := (Config{Services: tt.services}).range4(); got.String() != tt.want {
			t.Errorf("%v: %s, want %s", tt.services, got, tt.want)
		}
	}
}

package wireguard

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeep: a node keeps its key, and shows it to nobody.
func TestKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "below", "key")
	first, err := Keep(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := Keep(file)
	if err != nil || again != first {
		t.Fatalf("another key, or %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(file, []byte("c2VjcmV0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Keep(file); err == nil || strings.Contains(err.Error(), "c2VjcmV0") {
		t.Errorf("what is no key: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	// What a power cut left is no obstacle.
	if err := os.WriteFile(file+".next", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := Keep(file); err != nil || other == first {
		t.Errorf("the same key, or %v", err)
	}
}

// TestPublic has the first example of RFC 7748, section 6.1.
func TestPublic(t *testing.T) {
	private, err := ParseKey("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=")
	if err != nil {
		t.Fatal(err)
	}
	public, err := private.Public()
	if got := public.String(); err != nil || got != "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=" {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "x", "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LA==", Key{}.String()} {
		if k, err := ParseKey(bad); err == nil {
			t.Errorf("%q is %s", bad, k)
		}
	}
}

func TestSockaddr(t *testing.T) {
	for _, text := range []string{"192.0.2.1:51820", "[2001:db8::1]:7"} {
		a := netip.MustParseAddrPort(text)
		if got := endpoint(sockaddr(a)); got != a {
			t.Errorf("%s became %s", a, got)
		}
	}
	if got := endpoint([]byte{1, 2}); got.IsValid() {
		t.Errorf("of two bytes: %s", got)
	}
}

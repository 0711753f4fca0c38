package forwarding

import (
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/need"
)

// TestOn: both families are forwarded, and an interface that takes its routes from routers goes on taking them.
func TestOn(t *testing.T) {
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test's goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0-peer"}
	if err := netlink.LinkAdd(v); err != nil {
		t.Fatal(err)
	}
	read := func(knob string) string {
		text, err := os.ReadFile("/proc/sys/net/" + knob)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/eth0-peer/accept_ra", []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, v6 := range []bool{false, true} {
			if err := On(v6, slog.Default()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for knob, want := range map[string]string{"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1", "ipv6/conf/eth0/accept_ra": "2",
		"ipv6/conf/eth0-peer/accept_ra": "0"} {
		if got := read(knob); got != want {
			t.Errorf("%s is %s, want %s", knob, got, want)
		}
	}
}

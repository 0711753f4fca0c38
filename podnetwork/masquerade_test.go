package podnetwork

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/nft"
	"github.com/kloop-dev/kloop/test/need"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func show(list []nft.Element) string {
	var b bytes.Buffer
	for _, e := range list {
		a, _ := netip.AddrFromSlice([]byte(e.Key))
		if e.End {
			fmt.Fprintf(&b, "-%s ", a)
		} else {
			fmt.Fprintf(&b, "%s", a)
		}
	}
	return b.String()
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		name string
		list []netip.Prefix
		want string
	}{
		{"one range", prefixes("10.88.0.0/16"), "10.88.0.0-10.89.0.0 "},
		{"ranges side by side", prefixes("10.88.0.0/16", "10.89.0.0/16", "10.91.0.0/24"), "10.88.0.0-10.90.0.0 10.91.0.0-10.91.1.0 "},
		{"one address", prefixes("10.1.2.3/32"), "10.1.2.3-10.1.2.4 "},
		{"up to the last address", prefixes("255.255.0.0/16"), "255.255.0.0"},
		{"all addresses", prefixes("0.0.0.0/0"), "0.0.0.0"},
		{"half a network", prefixes("10.255.255.0/25"), "10.255.255.0-10.255.255.128 "},
		{"IPv6", prefixes("fd88::/64", "fd88:0:0:1::/64", "fd89::/64"), "fd88::-fd88:0:0:2:: fd89::-fd89:0:0:1:: "},
		{"IPv6 up to the last address", prefixes("ffff::/16"), "ffff::"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(elements(c.list)); got != c.want {
				t.Errorf("%v: %q, want %q", c.list, got, c.want)
			}
		})
	}
}

// TestProgram: the kernel takes the rules, and takes others in their place, for a few nodes and for thousands.
func TestProgram(t *testing.T) {
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test's goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	c, err := nft.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	many := prefixes("10.88.0.0/16")
	many6 := prefixes("fd88::/64")
	for i := range 5000 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{100, byte(i >> 8), byte(i), 0}), 25))
		many6 = append(many6, netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x99, 4: byte(i >> 8), 5: byte(i)}), 64))
	}
	two := prefixes("10.88.0.0/16", "10.90.0.0/16")
	for _, list := range [][]netip.Prefix{prefixes("10.88.0.0/16"), many, two, many6, prefixes("fd88::/64")} {
		tab := tables[0]
		if list[0].Addr().Is6() {
			tab = tables[1]
		}
		if err := program(c, tab, list[:1], list, false); err != nil {
			t.Fatal(err)
		}
		chains, err := c.Chains(tab)
		if err != nil || chains["leaving"] == nil || len(chains["leaving"].Rules) != 4 {
			t.Errorf("%d ranges: chains %v, %v", len(list), chains, err)
		}
		got, err := c.Elements(tab, podSet)
		if want := len(elements(list)); err != nil || len(got) < want || len(got) > want+1 {
			t.Errorf("%d ranges: %d elements in the kernel, want %d: %v", len(list), len(got), want, err)
		}
	}
}

// TestObstacles: a chain that drops what is forwarded is found, one that accepts is not.
func TestObstacles(t *testing.T) {
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test's goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	tab := c.AddTable(&nftables.Table{Name: "filter", Family: nftables.TableFamilyIPv4})
	for name, policy := range map[string]nftables.ChainPolicy{"FORWARD": nftables.ChainPolicyDrop, "OTHER": nftables.ChainPolicyAccept} {
		c.AddChain(&nftables.Chain{Name: name, Table: tab, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
			Priority: nftables.ChainPriorityFilter, Policy: &policy})
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := obstacles(); len(got) != 1 || !strings.Contains(got[0], "the chain FORWARD of the table filter") {
		t.Errorf("found %v", got)
	}
}

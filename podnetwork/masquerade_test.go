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

	"github.com/kloop-dev/kloop/test/need"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func show(list []nftables.SetElement) string {
	var b bytes.Buffer
	for _, e := range list {
		a, _ := netip.AddrFromSlice(e.Key)
		if e.IntervalEnd {
			fmt.Fprintf(&b, "-%s ", a)
		} else {
			fmt.Fprintf(&b, "%s", a)
		}
	}
	return b.String()
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		list []netip.Prefix
		want string
	}{
		{prefixes("10.88.0.0/16"), "10.88.0.0-10.89.0.0 "},
		{prefixes("10.88.0.0/16", "10.89.0.0/16", "10.91.0.0/24"), "10.88.0.0-10.90.0.0 10.91.0.0-10.91.1.0 "},
		{prefixes("10.1.2.3/32"), "10.1.2.3-10.1.2.4 "},
		{prefixes("255.255.0.0/16"), "255.255.0.0"},
		{prefixes("0.0.0.0/0"), "0.0.0.0"},
		{prefixes("10.255.255.0/25"), "10.255.255.0-10.255.255.128 "},
	} {
		if got := show(elements(c.list)); got != c.want {
			t.Errorf("%v: %q, want %q", c.list, got, c.want)
		}
	}
}

// TestProgram: the kernel takes the rules, and takes others in their place, for a few nodes and for thousands.
func TestProgram(t *testing.T) {
	need.BeRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test's goroutine
	need.Have(t, need.Root, unix.Unshare(unix.CLONE_NEWNET))
	own := netip.MustParsePrefix("10.88.0.0/16")
	many := prefixes("10.88.0.0/16")
	for i := range 5000 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{100, byte(i >> 8), byte(i), 0}), 25))
	}
	for _, list := range [][]netip.Prefix{{own}, many, prefixes("10.88.0.0/16", "10.90.0.0/16")} {
		if err := program(own, list); err != nil {
			t.Fatal(err)
		}
		c, err := nftables.New()
		if err != nil {
			t.Fatal(err)
		}
		tab := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
		rules, err := c.GetRules(tab, &nftables.Chain{Name: "leaving", Table: tab})
		if err != nil || len(rules) != 4 {
			t.Errorf("%d ranges: %d rules, %v", len(list), len(rules), err)
		}
		set, err := c.GetSetByName(tab, "pods")
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.GetSetElements(set)
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

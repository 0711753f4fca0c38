//go:build linux

package netpolicy

import (
	"fmt"
	"strings"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// observe reads what the kernel has of ours.
func observe(v6 bool) (o Observed, err error) {
	c, err := connect()
	if err != nil {
		return o, err
	}
	t := tableOf(v6)
	chains, err := c.ListChainsOfTableFamily(t.Family)
	if err != nil {
		return o, fmt.Errorf("list the kernel's chains: %w", err)
	}
	o = Observed{Sets: map[string]Set{}, Chains: map[string]int{}}
	hooked := 0
	for _, ch := range chains {
		if ch.Table.Name != tableName {
			continue
		}
		rules, err := c.GetRules(t, ch)
		if err != nil {
			return o, fmt.Errorf("list the rules of the chain %s: %w", ch.Name, err)
		}
		if ch.Name == hookName || ch.Name == ledName {
			if len(rules) == hookRules(ch.Name, v6) {
				hooked++
			}
			continue
		}
		o.Chains[ch.Name] = len(rules)
	}
	if o.Hooked = hooked == 2; !o.Hooked {
		return Observed{}, nil
	}
	sets, err := c.GetSets(t)
	if err != nil {
		return o, fmt.Errorf("list the kernel's sets: %w", err)
	}
	for _, s := range sets {
		if o.Sets[s.Name], err = contents(c, s); err != nil {
			return o, err
		}
	}
	return o, nil
}

// contents reads the elements of a set. Sets of ranges are known by their names.
func contents(c *nftables.Conn, s *nftables.Set) (Set, error) {
	set := Set{kindOf(s), map[string]string{}}
	list, err := c.GetSetElements(s)
	if err != nil {
		return set, fmt.Errorf("list the elements of the set %s: %w", s.Name, err)
	}
	var last string
	for _, e := range list {
		switch {
		case set.Kind == Chains:
			set.Elements[string(e.Key)] = target(e.Val)
		case set.Kind != Ranges:
			set.Elements[string(e.Key)] = ""
		case e.IntervalEnd:
			last = string(e.Key)
		default:
			set.Elements[string(e.Key)] = before(last, len(e.Key))
			last = ""
		}
	}
	return set, nil
}

func kindOf(s *nftables.Set) SetKind {
	switch {
	case s.IsMap:
		return Chains
	case s.Interval:
		return Ranges
	case s.Name == selfSet:
		return Pairs
	case strings.HasPrefix(s.Name, "ends-"):
		return Ends
	}
	return Addresses
}

// before is the address in front of one; of none, the last of all. The kernel lists ranges from the highest down, each behind its end.
func before(end string, length int) string {
	b := make([]byte, length)
	copy(b, end)
	for i := length - 1; i >= 0; i-- {
		b[i]--
		if b[i] != 0xff {
			break
		}
	}
	return string(b)
}

// target is the chain that a verdict leads to.
func target(verdict []byte) string {
	attrs, err := netlink.UnmarshalAttributes(verdict)
	if err != nil {
		return ""
	}
	for _, a := range attrs {
		if a.Type == unix.NFTA_VERDICT_CHAIN {
			return strings.TrimRight(string(a.Data), "\x00")
		}
	}
	return ""
}

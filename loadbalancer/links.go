package loadbalancer

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// A link is a network interface, as far as it matters here.
type link struct {
	index    int
	name     string
	mac      net.HardwareAddr
	up       bool
	arp      bool // Ethernet with broadcasts, and ARP not switched off
	member   bool // of a bridge, bond or the like, which answers in its place
	prefixes []netip.Prefix
}

// virtual are names of interfaces that lead to pods and tunnels, or into nothing: nobody out there asks on them. MetalLB leaves out
// the same.
var virtual = regexp.MustCompile(
	`^(docker|cbr|dummy|virbr|lxcbr|veth|lo$|cali|tunl|flannel|kube-ipvs|cni|nodelocaldns|lxc|kloop|cilium|vxlan|wg)`)

// observeLinks reads the interfaces from the kernel of this network namespace.
func observeLinks() ([]link, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of network interfaces: %w", err)
	}
	var list []link
	for _, l := range all {
		a := l.Attrs()
		out := link{index: a.Index, name: a.Name, mac: a.HardwareAddr, member: a.MasterIndex != 0, up: a.Flags&net.FlagUp != 0 &&
			a.OperState != netlink.OperDown && a.OperState != netlink.OperLowerLayerDown,
			arp: a.Flags&net.FlagBroadcast != 0 && a.Flags&net.FlagLoopback == 0 && len(a.HardwareAddr) == 6 && a.RawFlags&0x80 == 0} // IFF_NOARP
		for _, addr := range addrs {
			if p, ok := prefixOf(addr.IPNet); ok && addr.LinkIndex == a.Index {
				out.prefixes = append(out.prefixes, p)
			}
		}
		list = append(list, out)
	}
	return list, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones), ok
}

// choose returns the interfaces on which an address is answered, or says why there are none. Of those that qualify, the ones whose
// network holds the address are meant, if there are such.
func choose(list []link, addr netip.Addr, only []string) (chosen []link, why string) {
	refused := map[string]string{}
	for _, l := range list {
		switch {
		case len(only) > 0 && !slices.Contains(only, l.name):
		case len(only) == 0 && virtual.MatchString(l.name):
		case !l.up:
			refused[l.name] = "is down, or has no carrier"
		case !l.arp:
			refused[l.name] = "does no ARP (NOARP, or no Ethernet)"
		case l.member:
			refused[l.name] = "belongs to a bridge or bond"
		default:
			chosen = append(chosen, l)
		}
	}
	if near := slices.DeleteFunc(slices.Clone(chosen), func(l link) bool {
		return !slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
	}); len(near) > 0 {
		return near, ""
	}
	if len(chosen) > 0 {
		return chosen, ""
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		words = append(words, name+" "+refused[name])
	}
	if len(words) == 0 {
		words = []string{"none of the interfaces " + strings.Join(only, ", ") + " is there"}
	}
	return nil, strings.Join(words, "; ")
}

// foreign lists the networks of the interfaces on which an address is answered, if none of them holds it: then nobody asks for it
// there, unless a router sends what is meant for the address to the nodes. "": one does.
func foreign(chosen []link, addr netip.Addr) string {
	var words []string
	for _, l := range chosen {
		for _, p := range l.prefixes {
			switch {
			case p.Contains(addr):
				return ""
			case p.Addr().Is4() == addr.Is4() && !p.Addr().IsLinkLocalUnicast():
				words = append(words, l.name+" "+p.String())
			}
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

package clusters

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/nft"
)

// canNetwork says what is missing for nodes in network namespaces.
func canNetwork() error {
	if os.Getuid() != 0 {
		return errors.New("real nodes need root: use sudo, or simulated nodes with --sim-nodes")
	}
	return nil
}

// unused says that the machine knows no address and no route in a range.
func unused(p netip.Prefix) bool {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return false
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		addr, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if ok && bits > 0 && p.Overlaps(netip.PrefixFrom(addr, bits)) {
			return false
		}
	}
	return true
}

// The names of what a cluster has in the kernel of the machine.
func (c *Cluster) bridge() string         { return fmt.Sprintf("kloop%d", c.Index) }
func (c *Cluster) outerLink(n int) string { return fmt.Sprintf("kloop%dn%d", c.Index, n) }
func (c *Cluster) natTable() nft.Table {
	return nft.Table{Family: nft.IPv4, Name: fmt.Sprintf("kloop-cluster-%d", c.Index)}
}

// namespace is the file by which a node's network namespace lives: nsenter --net=FILE enters it. It is not in /run/netns, over which
// `ip netns` mounts that directory itself when it makes its first: what was there before can then be neither seen nor unmounted.
func (c *Cluster) namespace(n int) string { return filepath.Join(c.dir, strconv.Itoa(n)+".netns") }

// wire makes the bridge, the nodes' namespaces and the way out. What is there from before is made anew.
func wire(c *Cluster) error {
	if err := unwire(c); err != nil {
		return err
	}
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: c.bridge()}}
	if err := netlink.LinkAdd(br); err != nil {
		return fmt.Errorf("make the bridge %s: %w", c.bridge(), err)
	}
	gw := c.Gateway()
	err := errors.Join(netlink.AddrAdd(br, &netlink.Addr{IPNet: ipnet(gw)}), netlink.LinkSetUp(br))
	if err != nil {
		return fmt.Errorf("set up the bridge %s: %w", c.bridge(), err)
	}
	for n := 1; n <= c.Nodes; n++ {
		if err := c.wireNode(br, n); err != nil {
			return fmt.Errorf("make the network of node %d: %w", n, err)
		}
	}
	return c.wayOut()
}

func ipnet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}

// wireNode makes a node's namespace and joins it to the bridge.
func (c *Cluster) wireNode(br netlink.Link, n int) error {
	if err := makeNamespace(c.namespace(n)); err != nil {
		return err
	}
	f, err := os.Open(c.namespace(n))
	if err != nil {
		return err
	}
	defer f.Close()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: c.outerLink(n), MasterIndex: br.Attrs().Index}, PeerName: "eth0",
		PeerNamespace: netlink.NsFd(f.Fd())}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("make the link %s: %w", c.outerLink(n), err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return err
	}
	return within(f, func() error {
		for _, name := range []string{"lo", "eth0"} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if name == "eth0" {
				own := netip.PrefixFrom(c.Address(n), c.Gateway().Bits())
				if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipnet(own)}); err != nil {
					return err
				}
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		}
		if err := netlink.RouteAdd(&netlink.Route{Gw: c.Gateway().Addr().AsSlice()}); err != nil {
			return fmt.Errorf("make the default route: %w", err)
		}
		return nil
	})
}

// makeNamespace makes a network namespace that stays while its file is mounted.
func makeNamespace(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return thread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		from := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		if err := unix.Mount(from, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep the network namespace: %w", err)
		}
		return nil
	})
}

// thread runs f on a thread of its own, which ends with it: what f does to its namespaces is seen by nobody else.
func thread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocks
		done <- f()
	}()
	return <-done
}

// within runs f in a network namespace.
func within(ns *os.File, f func() error) error {
	return thread(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace %s: %w", ns.Name(), err)
		}
		return f()
	})
}

// wayOut lets nodes reach what the machine reaches: it forwards, and what leaves seems to come from it.
func (c *Cluster) wayOut() error {
	const forward = "/proc/sys/net/ipv4/ip_forward"
	if text, err := os.ReadFile(forward); err != nil || strings.TrimSpace(string(text)) != "1" {
		if err := os.WriteFile(forward, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("let the machine forward packets: %w", err)
		}
	}
	conn, err := nft.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	b := nft.NewBatch(c.natTable())
	b.AddTable()
	b.AddChain(nft.Chain{Name: "leaving", Hook: &nft.Hook{Type: "nat", Num: unix.NF_INET_POST_ROUTING, Priority: 100}})
	subnet := c.Gateway().Masked().Addr().As4()
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, c.bridge())
	b.AddRule("leaving", nft.NewRule(nft.IPv4, "nodes of cluster "+c.Name,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 3},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: subnet[:3]},
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: name},
		&expr.Masq{}))
	return conn.Commit(b)
}

// unwire takes away all that wire makes, and what is left of it.
func unwire(c *Cluster) error {
	conn, err := nft.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	there, err := conn.Exists(c.natTable())
	if err == nil && there {
		b := nft.NewBatch(c.natTable())
		b.DeleteTable()
		err = conn.Commit(b)
	}
	for n := 1; n <= c.Nodes; n++ {
		err = errors.Join(err, dropLink(c.outerLink(n)), dropNamespace(c.namespace(n)))
	}
	return errors.Join(err, dropLink(c.bridge()))
}

// dropLink removes a link if it is there. That of a namespace that is going may go by itself meanwhile.
func dropLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the link %s: %w", name, err)
	}
	return nil
}

func dropNamespace(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("let go of the network namespace %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// detach makes a process that outlives this one and its terminal.

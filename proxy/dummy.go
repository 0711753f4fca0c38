package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dummyName is the interface that has the services' addresses in mode ipvs, so that the kernel takes packets to them for its own: there
// IPVS sees them. The name is kube-proxy's, which others know.
const dummyName = "kube-ipvs0"

// ours begins the alias of an interface that we made. The kernel's settings that we changed follow, with their former values.
const ours = "kloop:"

// answers are the kernel's settings by which it answers ARP for an address on the interface alone that has it, and asks with none of
// those; without, every node would answer for the addresses of load balancers.
var answers = []struct{ file, value string }{
	{"/proc/sys/net/ipv4/conf/all/arp_ignore", "1"}, {"/proc/sys/net/ipv4/conf/all/arp_announce", "2"},
}

// A dummy is that interface.
type dummy struct {
	h    *netlink.Handle
	link netlink.Link
	have map[netip.Addr]bool
}

// openDummy finds the interface or makes it.
func openDummy() (*dummy, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	d := &dummy{h: h}
	if err := d.find(); err != nil {
		h.Close()
		return nil, err
	}
	return d, nil
}

// find looks the interface up, and makes it if it is not there. One that is made in the place of ours tells what ours told.
func (d *dummy) find() error {
	link, err := d.h.LinkByName(dummyName)
	if isMissing(err) {
		if err = d.h.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: dummyName}}); err == nil {
			link, err = d.h.LinkByName(dummyName)
		}
		if err == nil && d.link != nil && d.link.Attrs().Alias != "" {
			link.Attrs().Alias = d.link.Attrs().Alias
			err = d.h.LinkSetAlias(link, link.Attrs().Alias)
		}
	}
	if err != nil {
		return fmt.Errorf("make the interface %s: %w", dummyName, err)
	}
	d.link = link
	return nil
}

func isMissing(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none)
}

func (d *dummy) close() { d.h.Close() }

// claim marks the interface as ours and has the kernel answer ARP as strict says.
func (d *dummy) claim(strict bool) error {
	alias := d.link.Attrs().Alias
	if !strings.HasPrefix(alias, ours) {
		alias = ours
	}
	var errs []error
	for _, a := range answers {
		held, err := os.ReadFile(a.file)
		if now := strings.TrimSpace(string(held)); err == nil && strict && now != a.value {
			if !strings.Contains(alias, a.file+"=") {
				alias += " " + a.file + "=" + now
			}
			err = os.WriteFile(a.file, []byte(a.value), 0o644)
		}
		errs = append(errs, err)
	}
	if !strict {
		alias = ours
		errs = append(errs, restore(d.link.Attrs().Alias))
	}
	if alias != d.link.Attrs().Alias {
		errs = append(errs, d.h.LinkSetAlias(d.link, alias))
		d.link.Attrs().Alias = alias
	}
	return errors.Join(errs...)
}

// restore puts back the settings that an alias tells of, where they are still as we made them.
func restore(alias string) error {
	var errs []error
	for _, a := range answers {
		for word := range strings.FieldsSeq(alias) {
			was, found := strings.CutPrefix(word, a.file+"=")
			if now, err := os.ReadFile(a.file); found && err == nil && strings.TrimSpace(string(now)) == a.value {
				errs = append(errs, os.WriteFile(a.file, []byte(was), 0o644))
			}
		}
	}
	return errors.Join(errs...)
}

// observe reads the interface's addresses. The interface is made again if somebody deleted it.
func (d *dummy) observe() error {
	if err := d.find(); err != nil {
		return err
	}
	d.have = map[netip.Addr]bool{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := d.h.AddrList(d.link, family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list the addresses of %s: %w", dummyName, err)
		}
		for _, a := range list {
			if ip, ok := netip.AddrFromSlice(a.IP); ok && !ip.IsLinkLocalUnicast() {
				d.have[ip.Unmap()] = true
			}
		}
	}
	return nil
}

// add gives the interface an address.
func (d *dummy) add(a netip.Addr) error {
	if d.have[a] {
		return nil
	}
	if a.Is6() && d.link.Attrs().Flags&net.FlagUp == 0 {
		// IPv6 gives no address of an interface that is down to the machine; IPv4 does.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+dummyName+"/addr_gen_mode", []byte("1"), 0o644) // none of its own
		if err := d.h.LinkSetUp(d.link); err != nil {
			return fmt.Errorf("put %s up: %w", dummyName, err)
		}
		d.link.Attrs().Flags |= net.FlagUp
	}
	if err := d.h.AddrReplace(d.link, addressOf(a)); err != nil {
		return fmt.Errorf("give %s the address %s: %w", dummyName, a, err)
	}
	d.have[a] = true
	return nil
}

// remove takes an address from the interface.
func (d *dummy) remove(a netip.Addr) error {
	if err := d.h.AddrDel(d.link, addressOf(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("take the address %s from %s: %w", a, dummyName, err)
	}
	delete(d.have, a)
	return nil
}

func addressOf(a netip.Addr) *netlink.Addr {
	n := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
	if a.Is6() {
		n.Flags = unix.IFA_F_NODAD
	}
	return n
}

// findDummy finds the interface if we made it; nil: there is none of ours.
func findDummy() (*dummy, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	link, err := h.LinkByName(dummyName)
	if err != nil || !strings.HasPrefix(link.Attrs().Alias, ours) {
		h.Close()
		if isMissing(err) {
			err = nil
		}
		return nil, err
	}
	return &dummy{h: h, link: link}, nil
}

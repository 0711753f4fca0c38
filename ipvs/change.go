package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Changes collect commands. The kernel does them in their order, each for itself: one that fails stops none.
type Changes struct {
	list []change
}

type change struct {
	cmd  uint8
	svc  Service
	dest Destination
}

// Add makes a service.
func (c *Changes) Add(s Service) { c.list = append(c.list, change{cmd: newService, svc: s}) }

// Set gives a service another scheduler, other flags or another timeout; its connections go on.
func (c *Changes) Set(s Service) { c.list = append(c.list, change{cmd: setService, svc: s}) }

// Delete takes a service away, with its destinations.
func (c *Changes) Delete(k Key) {
	c.list = append(c.list, change{cmd: delService, svc: Service{Key: k}})
}

// AddTo gives a service a destination.
func (c *Changes) AddTo(k Key, d Destination) {
	c.list = append(c.list, change{newDest, Service{Key: k}, d})
}

// SetIn gives a destination another weight.
func (c *Changes) SetIn(k Key, d Destination) {
	c.list = append(c.list, change{setDest, Service{Key: k}, d})
}

// DeleteFrom takes a destination away.
func (c *Changes) DeleteFrom(k Key, at netip.AddrPort) {
	c.list = append(c.list, change{delDest, Service{Key: k}, Destination{At: at}})
}

// perSend bounds the commands of one message to the kernel, which takes what fits the socket's buffer.
const perSend = 300

// Do has the kernel do the changes, and returns the first few that it refused.
func (c *Conn) Do(changes *Changes) error {
	var errs []error
	for list := changes.list; len(list) > 0; {
		part := list[:min(perSend, len(list))]
		list = list[len(part):]
		first := c.seq + 1
		var b []byte
		for i, ch := range part {
			flags := uint16(0)
			if i == len(part)-1 {
				flags = unix.NLM_F_ACK
			}
			b = append(b, c.message(c.family, ch.cmd, flags, ch.attrs()...)...)
		}
		if err := c.sock.Send(b); err != nil {
			return fmt.Errorf("send %d changes to IPVS: %w", len(part), err)
		}
		last := c.seq
		for done := false; !done; {
			err := c.sock.Receive(func(typ, _ uint16, seq uint32, body []byte) {
				if typ != unix.NLMSG_ERROR || len(body) < 4 || seq < first || seq > last {
					return
				}
				if code := int32(native.Uint32(body)); code != 0 && len(errs) < 3 {
					errs = append(errs, fmt.Errorf("%s: %w", part[seq-first], syscall.Errno(-code)))
				}
				done = done || seq == last
			})
			if err != nil {
				return fmt.Errorf("wait for IPVS: %w", err)
			}
		}
	}
	return errors.Join(errs...)
}

func (ch change) String() string {
	what := [...]string{newService: "make", setService: "change", delService: "delete",
		newDest: "give", setDest: "change", delDest: "take"}[ch.cmd]
	switch ch.cmd {
	case newDest, setDest, delDest:
		return fmt.Sprintf("%s destination %s of virtual server %s", what, ch.dest.At, ch.svc.Key)
	case newService, setService:
		return fmt.Sprintf("%s virtual server %s with scheduler %s", what, ch.svc.Key, ch.svc.Scheduler)
	}
	return fmt.Sprintf("%s virtual server %s", what, ch.svc.Key)
}

func (ch change) attrs() []*nl.RtAttr {
	switch ch.cmd {
	case newService, setService:
		return []*nl.RtAttr{ch.svc.attr(true)}
	case newDest, setDest, delDest:
		return []*nl.RtAttr{ch.svc.attr(false), ch.dest.attr(ch.cmd != delDest)}
	}
	return []*nl.RtAttr{ch.svc.attr(false)}
}

// attr writes a service, whole or by its key.
func (s Service) attr(whole bool) *nl.RtAttr {
	a := nl.NewRtAttr(attrService|unix.NLA_F_NESTED, nil)
	a.AddRtAttr(svcFamily, u16(family(s.Addr)))
	if s.Mark != 0 {
		a.AddRtAttr(svcMark, u32(s.Mark))
	} else {
		a.AddRtAttr(svcProtocol, u16(uint16(s.Protocol)))
		a.AddRtAttr(svcAddr, wide(s.Addr))
		a.AddRtAttr(svcPort, be16(s.Port))
	}
	if whole {
		mask := uint32(0xffffffff)
		if s.Addr.Is6() {
			mask = 128
		}
		a.AddRtAttr(svcSched, nl.ZeroTerminated(s.Scheduler))
		a.AddRtAttr(svcFlags, append(u32(s.Flags), u32(0xffffffff)...))
		a.AddRtAttr(svcTimeout, u32(s.Timeout))
		a.AddRtAttr(svcNetmask, u32(mask))
	}
	return a
}

func (d Destination) attr(whole bool) *nl.RtAttr {
	const masquerade = 0 // IP_VS_CONN_F_MASQ
	a := nl.NewRtAttr(attrDest|unix.NLA_F_NESTED, nil)
	a.AddRtAttr(destAddr, wide(d.At.Addr()))
	a.AddRtAttr(destPort, be16(d.At.Port()))
	a.AddRtAttr(destFamily, u16(family(d.At.Addr())))
	if whole {
		a.AddRtAttr(destMethod, u32(masquerade))
		a.AddRtAttr(destWeight, u32(d.Weight))
		a.AddRtAttr(destUpper, u32(0))
		a.AddRtAttr(destLower, u32(0))
	}
	return a
}

// Timeouts sets how long the kernel remembers connections that are silent; zero leaves one as it is.
func (c *Conn) Timeouts(tcp, tcpEnd, udp time.Duration) error {
	var attrs []*nl.RtAttr
	for i, d := range []time.Duration{tcp, tcpEnd, udp} {
		const first = 4 // IPVS_CMD_ATTR_TIMEOUT_TCP
		if d > 0 {
			attrs = append(attrs, nl.NewRtAttr(first+i, u32(uint32(d/time.Second))))
		}
	}
	if len(attrs) == 0 {
		return nil
	}
	if err := c.sock.Send(c.message(c.family, setConfig, unix.NLM_F_ACK, attrs...)); err != nil {
		return err
	}
	var failed error
	for done, want := false, c.seq; !done; {
		err := c.sock.Receive(func(typ, _ uint16, seq uint32, body []byte) {
			if done = seq == want && typ == unix.NLMSG_ERROR && len(body) >= 4; done && number(body) != 0 {
				failed = fmt.Errorf("set the timeouts of IPVS: %w", syscall.Errno(-int32(number(body))))
			}
		})
		if err != nil {
			return err
		}
	}
	return failed
}

// Services lists all virtual servers.
func (c *Conn) Services() (list []Service, err error) {
	err = c.dump(getService, nil, func() { list = nil }, func(body []byte) {
		if s, ok := parseService(find(body, attrService)); ok {
			list = append(list, s)
		}
	})
	return list, err
}

// Destinations lists those of a service.
func (c *Conn) Destinations(k Key) (list []Destination, err error) {
	v6 := k.Addr.Is6()
	err = c.dump(getDest, Service{Key: k}.attr(false), func() { list = nil }, func(body []byte) {
		d := find(body, attrDest)
		if a, ok := narrow(find(d, destAddr), v6); ok {
			list = append(list, Destination{At: netip.AddrPortFrom(a, port(find(d, destPort))), Weight: number(find(d, destWeight)),
				Active: int(number(find(d, destActive))), Idle: int(number(find(d, destIdle)))})
		}
	})
	return list, err
}

// dump lists, again while the list changes.
func (c *Conn) dump(cmd uint8, attr *nl.RtAttr, reset func(), each func([]byte)) error {
	const tries = 10
	for range tries {
		reset()
		changed, err := c.ask(c.family, cmd, unix.NLM_F_DUMP, attr, each)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("list what IPVS has: %w", err)
		}
		if err == nil && !changed {
			return nil
		}
	}
	return errors.New("list what IPVS has: it changes all the time")
}

func parseService(b []byte) (Service, bool) {
	v6 := short(find(b, svcFamily)) == unix.AF_INET6
	s := Service{Scheduler: unix.ByteSliceToString(find(b, svcSched)), Flags: number(find(b, svcFlags)) &^ hashed,
		Timeout: number(find(b, svcTimeout))}
	if s.Mark = number(find(b, svcMark)); s.Mark != 0 {
		s.Key = MarkKey(s.Mark, v6)
		return s, true
	}
	var ok bool
	s.Addr, ok = narrow(find(b, svcAddr), v6)
	s.Protocol, s.Port = uint8(short(find(b, svcProtocol))), port(find(b, svcPort))
	return s, ok
}

// MarkKey names the service of a mark in one family.
func MarkKey(mark uint32, v6 bool) Key {
	if v6 {
		return Key{Mark: mark, Addr: netip.IPv6Unspecified()}
	}
	return Key{Mark: mark, Addr: netip.IPv4Unspecified()}
}

func family(a netip.Addr) uint16 {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// wide writes an address as the kernel has those of both families.
func wide(a netip.Addr) []byte {
	b := make([]byte, 16)
	copy(b, a.AsSlice())
	return b
}

func narrow(b []byte, v6 bool) (netip.Addr, bool) {
	size := 4
	if v6 {
		size = 16
	}
	if len(b) < size {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(b[:size])
}

func u16(n uint16) []byte  { return native.AppendUint16(nil, n) }
func u32(n uint32) []byte  { return native.AppendUint32(nil, n) }
func be16(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }

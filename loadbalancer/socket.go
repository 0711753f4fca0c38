package loadbalancer

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A socket sees the packets of one protocol on all interfaces of the network namespace in which it was opened.
type socket struct {
	protocol uint16
	file     *os.File
	raw      syscall.RawConn
}

// onlyNDP lets neighbour solicitations and advertisements through: all other IPv6 traffic must not wake us.
var onlyNDP = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 6, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 58, SkipTrue: 4},
	bpf.LoadAbsolute{Off: 40, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: solicitation, SkipTrue: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: advertisement, SkipTrue: 1},
	bpf.RetConstant{Val: 2048},
	bpf.RetConstant{Val: 0},
}

// openSocket needs CAP_NET_RAW.
func openSocket(protocol uint16) (*socket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket (this needs CAP_NET_RAW): %w", err)
	}
	if protocol == unix.ETH_P_IPV6 {
		if err := filter(fd, onlyNDP); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("filter a packet socket: %w", err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap(protocol)}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind a packet socket: %w", err)
	}
	s := &socket{protocol: protocol, file: os.NewFile(uintptr(fd), "packet")}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

func filter(fd int, program []bpf.Instruction) error {
	code, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	list := make([]unix.SockFilter, len(code))
	for i, c := range code {
		list[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(list)), Filter: &list[0]})
}

// readPause passes before the kernel is asked again that could not say what came in.
const readPause = 50 * time.Millisecond

// swap puts a number into the network's order of bytes.
func swap(n uint16) uint16 { return n<<8 | n>>8 }

// read waits for a packet that came from elsewhere, and returns it with the index of its interface. It fails when the socket is closed:
// what else the kernel says passes, as it may of an interface that went down.
func (s *socket) read(buf []byte) (n, index int, err error) {
	for {
		var from unix.Sockaddr
		var rerr error
		if err := s.raw.Read(func(fd uintptr) bool {
			n, from, rerr = unix.Recvfrom(int(fd), buf, 0)
			return rerr != unix.EAGAIN
		}); err != nil {
			return 0, 0, err
		}
		if rerr != nil {
			if rerr != unix.EINTR && rerr != unix.ENETDOWN {
				time.Sleep(readPause)
			}
			continue
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype != unix.PACKET_OUTGOING {
			return n, ll.Ifindex, nil
		}
	}
}

// send sends a packet on an interface, from its hardware address.
func (s *socket) send(index int, to net.HardwareAddr, packet []byte) error {
	addr := &unix.SockaddrLinklayer{Protocol: swap(s.protocol), Ifindex: index, Halen: 6}
	copy(addr.Addr[:], to)
	var serr error
	if err := s.raw.Write(func(fd uintptr) bool {
		serr = unix.Sendto(int(fd), packet, 0, addr)
		return serr != unix.EAGAIN
	}); err != nil {
		return err
	}
	return serr
}

func (s *socket) close() { s.file.Close() }

// groups are memberships in multicast groups: switches and network cards let through what is asked of our IPv6 addresses.
type groups struct {
	fd     int
	joined map[membership]bool
}

type membership struct {
	group netip.Addr
	index int
}

func newGroups() (*groups, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket for multicast groups: %w", err)
	}
	return &groups{fd, map[membership]bool{}}, nil
}

// set joins and leaves groups so that they are those.
func (g *groups) set(want map[membership]bool) error {
	var failed error
	change := func(m membership, option int) error {
		return unix.SetsockoptIPv6Mreq(g.fd, unix.IPPROTO_IPV6, option, &unix.IPv6Mreq{Multiaddr: m.group.As16(), Interface: uint32(m.index)})
	}
	for m := range g.joined {
		if !want[m] {
			_ = change(m, unix.IPV6_LEAVE_GROUP) // the interface may be gone
			delete(g.joined, m)
		}
	}
	for m := range want {
		if !g.joined[m] {
			if err := change(m, unix.IPV6_JOIN_GROUP); err != nil {
				failed = fmt.Errorf("join the group %s: %w", m.group, err)
				continue
			}
			g.joined[m] = true
		}
	}
	return failed
}

func (g *groups) close() { unix.Close(g.fd) }

package proxy

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/eventually"
)

// TestConntrack: what the kernel is to remember of connections is set when services are, and again by a proxy that comes later.
func TestConntrack(t *testing.T) {
	ownNetwork(t)
	w := newWorld()
	w.service("web", "10.96.0.10")
	for range 2 {
		newProxy(t, w, Config{}).sync(t, w)
		for name, want := range map[string]string{"tcp_be_liberal": "1", "tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600"} {
			file := "/proc/sys/net/netfilter/nf_conntrack_" + name
			text, err := os.ReadFile(file)
			if err != nil || string(text) != want+"\n" {
				t.Errorf("nf_conntrack_%s is %q, %v; want %s", name, text, err, want)
			}
			must(t, os.WriteFile(file, []byte("0"), 0o644))
		}
	}
}

// TestLateSegment: a segment far outside the window, as one that was on its way for long, reaches the client of a service with the
// service's address. With the endpoint's the client would reset the connection.
func TestLateSegment(t *testing.T) {
	c := newTown(t)
	name := c.w.service("web", "10.96.0.10")
	c.w.ends("web", at(podIP))
	for i := range c.w.slices[name][0].Ports {
		port := int32(8081)
		c.w.slices[name][0].Ports[i].Port = &port
	}
	c.l.sync(t, c.w, name)
	var l net.Listener
	var raw int
	c.pod.run(func() (err error) {
		if l, err = net.Listen("tcp", podIP+":8081"); err != nil {
			return err
		}
		raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return err
	})
	t.Cleanup(func() { l.Close(); unix.Close(raw) })
	var client net.Conn
	c.other.run(func() (err error) {
		client, err = net.DialTimeout("tcp", "10.96.0.10:80", eventually.Patience)
		return err
	})
	defer client.Close()
	server, err := l.Accept()
	must(t, err)
	defer server.Close()
	for _, conn := range []net.Conn{client, server} {
		must(t, conn.SetDeadline(time.Now().Add(eventually.Patience)))
	}
	says := func(from, to net.Conn, text string) {
		t.Helper()
		_, err := fmt.Fprintln(from, text)
		must(t, err)
		var got string
		if _, err := fmt.Fscan(to, &got); err != nil || got != text {
			t.Fatalf("heard %q, %v; want %s", got, err, text)
		}
	}
	says(client, server, "hello")
	seq, ack := heard(t, raw, len("hello\n"))
	from, to := netip.MustParseAddrPort(server.LocalAddr().String()), netip.MustParseAddrPort(server.RemoteAddr().String())
	for _, off := range []uint32{1 << 30, 100_000, ^uint32(100_000)} {
		must(t, unix.Sendto(raw, segment(from, to, ack+off, seq), 0, &unix.SockaddrInet4{Addr: to.Addr().As4()}))
	}
	says(server, client, "still")
	says(client, server, "there")
}

// heard waits for a segment of so many bytes, and returns the numbers that its receiver would answer with.
func heard(t *testing.T, raw, size int) (seq, ack uint32) {
	t.Helper()
	must(t, unix.SetsockoptTimeval(raw, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	buf := make([]byte, 2048)
	for range 100 {
		n, _, err := unix.Recvfrom(raw, buf, 0)
		must(t, err)
		tcp := buf[int(buf[0]&15)*4 : n]
		if len(tcp)-int(tcp[12]>>4)*4 == size && binary.BigEndian.Uint16(tcp[2:]) == 8081 {
			return binary.BigEndian.Uint32(tcp[4:]) + uint32(size), binary.BigEndian.Uint32(tcp[8:])
		}
	}
	t.Fatal("no segment of that size")
	return 0, 0
}

// segment is an empty segment with its checksum.
func segment(from, to netip.AddrPort, seq, ack uint32) []byte {
	s := binary.BigEndian.AppendUint16(nil, from.Port())
	s = binary.BigEndian.AppendUint16(s, to.Port())
	s = binary.BigEndian.AppendUint32(s, seq)
	s = binary.BigEndian.AppendUint32(s, ack)
	s = append(s, 5<<4, 1<<4, 16, 0, 0, 0, 0, 0) // no options, ACK, a window
	sum := uint32(unix.IPPROTO_TCP + len(s))
	for _, part := range [][]byte{from.Addr().AsSlice(), to.Addr().AsSlice(), s} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(s[16:], ^uint16(sum))
	return s
}

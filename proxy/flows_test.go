package proxy

import (
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// echo answers datagrams at the addresses with the address.
func echo(t *testing.T, addresses ...string) {
	t.Helper()
	for _, at := range addresses {
		c, err := net.ListenPacket("udp", at)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		go func() {
			buf := make([]byte, 64)
			for {
				_, from, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = c.WriteTo([]byte(at), from)
			}
		}()
	}
}

// TestUDPFlows has one client that never stops sending from one port, as DNS resolvers and phones do: it must reach an endpoint as soon
// as there is one, and another when that is gone, although the kernel remembers its flow.
func TestUDPFlows(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.100")
	echo(t, "10.1.0.1:8080", "10.1.0.2:8080")
	w := newWorld()
	name := w.service("dns", "10.96.0.53", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP })
	l := newProxy(t, w, Config{})
	must(t, l.prepare())
	c, err := net.Dial("udp", "10.96.0.53:80")
	must(t, err)
	defer c.Close()
	met := func() string {
		_, _ = c.Write([]byte("x")) // refused, perhaps: the error is of an earlier datagram
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		buf := make([]byte, 64)
		n, _ := c.Read(buf)
		return string(buf[:n])
	}
	until := func(want string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); met() != want; {
			if time.Now().After(end) {
				t.Fatalf("the client does not reach %s", want)
			}
		}
	}
	met() // before any proxy ran
	w.ends("dns", at("10.1.0.1"))
	l.sync(t, w)
	until("10.1.0.1:8080")
	w.ends("dns", at("10.1.0.2"))
	l.sync(t, w, name)
	until("10.1.0.2:8080")
	w.ends("dns")
	l.sync(t, w, name)
	until("")
	w.ends("dns", at("10.1.0.1"), at("10.1.0.2"))
	l.sync(t, w, name)
	for met() == "" {
	}
	// A new proxy finds what changed while none ran.
	w.ends("dns", at("10.1.0.1"))
	l.sync(t, w, name)
	until("10.1.0.1:8080")
	w.ends("dns", at("10.1.0.2"))
	newProxy(t, w, Config{}).sync(t, w)
	until("10.1.0.2:8080")
	delete(w.services, name)
	l.sync(t, w)
	until("")
}

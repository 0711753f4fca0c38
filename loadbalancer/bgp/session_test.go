package bgp

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A router is the other end of a session, by hand.
type router struct {
	t *testing.T
	net.Conn
}

var loopback = netip.MustParseAddr("127.0.0.1")

// listening returns a peer on the loopback, and how to accept its session.
func listening(t *testing.T) (Peer, func() *router) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := Peer{Name: "r", Address: loopback, Port: uint16(ln.Addr().(*net.TCPAddr).Port), MyAS: 1, PeerAS: 2,
		Connect: 10 * time.Millisecond}
	return p, func() *router {
		t.Helper()
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return &router{t, c}
	}
}

// expect reads messages up to one of a type.
func (r *router) expect(typ byte) []byte {
	r.t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		r.t.Fatal(err)
	}
	for {
		got, body, err := read(r)
		if err != nil {
			r.t.Fatalf("before a message of type %d: %v", typ, err)
		}
		if got == typ {
			return body
		}
	}
}

func (r *router) say(typ byte, body ...byte) {
	r.t.Helper()
	if _, err := r.Write(frame(typ, body)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) greet(as uint32, hold time.Duration) {
	r.t.Helper()
	r.expect(typeOpen)
	_, _ = r.Write(open{as: as, hold: hold, id: netip.MustParseAddr("10.0.0.2"), offers: []uint16{afi4}}.bytes())
	r.say(typeKeepalive)
	r.expect(typeKeepalive)
}

// speaking starts a speaker, and returns what it tells.
func speaking(t *testing.T, p Peer, list ...Route) (*Speaker, chan State) {
	t.Helper()
	states := make(chan State, 100)
	s := NewSpeaker(Own{RouterID: netip.MustParseAddr("10.0.0.1")}, func(_ Peer, st State) {
		select {
		case states <- st:
		default: // a test that looks at none
		}
	})
	t.Cleanup(s.Close)
	s.Set(map[Peer][]Route{p: list})
	return s, states
}

func heard(t *testing.T, states chan State, words string) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case st := <-states:
			if strings.Contains(st.Trouble, words) && st.Established == (words == "") {
				return
			}
		case <-late:
			t.Fatalf("nothing was told of %q", words)
		}
	}
}

// TestSession: a peer that misbehaves hears so and gets another session.
func TestSession(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(r *router)
		code string // of our notification
		says string
	}{
		{"another AS", func(r *router) {
			r.expect(typeOpen)
			_, _ = r.Write(open{as: 3, id: netip.MustParseAddr("10.0.0.2")}.bytes())
		}, "\x02\x02", "it is of AS 3"},
		{"no OPEN", func(r *router) { r.say(typeKeepalive) }, "\x05\x01", "where an OPEN is due"},
		{"no consent", func(r *router) {
			r.expect(typeOpen)
			_, _ = r.Write(open{as: 2, id: netip.MustParseAddr("10.0.0.2")}.bytes())
			r.say(typeUpdate, 0, 0, 0, 0)
		}, "\x05\x02", "where a KEEPALIVE is due"},
		{"a second OPEN", func(r *router) {
			r.greet(2, 0)
			_, _ = r.Write(open{as: 2, id: netip.MustParseAddr("10.0.0.2")}.bytes())
		}, "\x05\x03", "a second OPEN"},
		{"an UPDATE with wrong lengths", func(r *router) { r.greet(2, 0); r.say(typeUpdate, 9, 9, 0, 0) }, "\x03\x01", "withdrawn"},
		{"no BGP", func(r *router) { _, _ = r.Write([]byte("SSH-2.0-router with more words")) }, "\x01\x01", "speaks no BGP"},
		{"silence", func(r *router) { r.greet(2, 3*time.Second) }, "\x04\x00", "said nothing for 3s"},
		{"refusal", func(r *router) { r.say(typeNotification, 6, 5) }, "", "it refuses the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, accept := listening(t)
			_, states := speaking(t, p, routes("192.0.2.1/32")...)
			r := accept()
			tt.do(r)
			if tt.code != "" {
				if body := r.expect(typeNotification); string(body) != tt.code {
					t.Errorf("told %x", body)
				}
			}
			heard(t, states, tt.says)
			again := accept()
			again.greet(2, 0)
			again.expect(typeUpdate)
			heard(t, states, "")
		})
	}
}

// TestRefresh: a peer that asks for everything again gets it.
func TestRefresh(t *testing.T) {
	p, accept := listening(t)
	speaking(t, p, routes("192.0.2.1/32")...)
	r := accept()
	r.greet(2, 0)
	for range 3 {
		if body := r.expect(typeUpdate); len(body) == 4 {
			t.Error("nothing before the end")
		}
		if body := r.expect(typeUpdate); len(body) != 4 {
			t.Errorf("%x where an end is due", body)
		}
		r.say(typeRefresh, 0, afi4, 0, unicast)
	}
}

// TestLastWord: a session that ends as the process ends, or as its peer is dropped, says why; with graceful restart the first says nothing.
func TestLastWord(t *testing.T) {
	for _, tt := range []struct {
		name     string
		graceful bool
		end      func(*Speaker)
		code     string
	}{
		{"end", false, (*Speaker).Close, "\x06\x02"},
		{"dropped", false, func(s *Speaker) { s.Set(nil) }, "\x06\x03"},
		{"dropped, graceful", true, func(s *Speaker) { s.Set(nil) }, "\x06\x03"},
		{"end, graceful", true, (*Speaker).Close, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, accept := listening(t)
			p.Graceful = tt.graceful
			s, states := speaking(t, p)
			r := accept()
			r.greet(2, 0)
			heard(t, states, "")
			go func() {
				for range 1000 { // other routes at the same time don't cost the last word
					s.Set(map[Peer][]Route{p: routes("192.0.2.1/32")})
				}
			}()
			tt.end(s)
			got := ""
			for {
				typ, body, err := read(r)
				if err != nil {
					break
				}
				if typ == typeNotification {
					got = string(body)
				}
			}
			if got != tt.code {
				t.Errorf("told %x, want %x", got, tt.code)
			}
		})
	}
}

// TestDeafPeer: a peer that reads nothing does not hold up the end, though a message is being written.
func TestDeafPeer(t *testing.T) {
	p, accept := listening(t)
	s, states := speaking(t, p)
	r := accept()
	r.greet(2, 0)
	heard(t, states, "")
	var many []Route
	for i := range 20000 { // with a kilobyte of communities each: more than both ends of the connection hold
		r := Route{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)}
		for c := range MostCommunities {
			r.Large = append(r.Large, [3]uint32{uint32(i), 1, uint32(c)})
		}
		many = append(many, r)
	}
	s.Set(map[Peer][]Route{p: many})
	r.expect(typeUpdate) // the end of no routes
	r.expect(typeUpdate) // the first of these: from now on nobody reads
	ended := make(chan struct{})
	go func() { s.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(writeTime - 5*time.Second):
		t.Fatal("the speaker waits for its peer")
	}
}

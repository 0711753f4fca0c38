package dns

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// taken are the addresses at which tests listen: to sockets that share their port the kernel may give one that others of them have.
var taken sync.Map

// listenAnywhere listens on a free port of the loopback, the same for UDP and TCP.
func listenAnywhere(t testing.TB) (*listener, netip.AddrPort) {
	t.Helper()
	for {
		l, err := listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
		if errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		at := l.udp[0].LocalAddr().(*net.UDPAddr).AddrPort()
		if _, twice := taken.LoadOrStore(at, true); twice {
			l.close()
			continue
		}
		t.Cleanup(func() {
			l.close()
			taken.Delete(at)
		})
		return l, at
	}
}

// An upstream is a name server elsewhere, whose answers a test decides.
type upstream struct {
	at    netip.AddrPort
	asked atomic.Int64
}

// newUpstream answers by say; nil answers nothing.
func newUpstream(t *testing.T, say func(q dnsmessage.Question, tcp bool) *dnsmessage.Message) *upstream {
	t.Helper()
	l, at := listenAnywhere(t)
	u := &upstream{at: at}
	answer := func(msg []byte, tcp bool) []byte {
		u.asked.Add(1)
		var m dnsmessage.Message
		if err := m.Unpack(msg); err != nil || len(m.Questions) != 1 {
			return nil
		}
		out := say(m.Questions[0], tcp)
		if out == nil {
			return nil
		}
		out.ID, out.Response, out.RecursionAvailable, out.Questions = m.ID, true, true, m.Questions
		b, err := out.Pack()
		if err != nil {
			t.Error(err)
		}
		return b
	}
	for _, c := range l.udp {
		go func() {
			buf := make([]byte, 4096)
			for {
				n, from, err := c.ReadFromUDPAddrPort(buf)
				if err != nil {
					return
				}
				if out := answer(buf[:n], false); out != nil {
					_, _ = c.WriteToUDPAddrPort(out, from)
				}
			}
		}()
	}
	go func() {
		for {
			c, err := l.tcp.Accept()
			if err != nil {
				return
			}
			msg := make([]byte, 2)
			if _, err := io.ReadFull(c, msg); err == nil {
				msg = make([]byte, int(msg[0])<<8|int(msg[1]))
				if _, err := io.ReadFull(c, msg); err == nil {
					out := answer(msg, true)
					_, _ = c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...))
				}
			}
			_ = c.Close()
		}
	}()
	return u
}

// addressed answers every question for an address with it.
func addressed(ip string, ttl uint32) func(dnsmessage.Question, bool) *dnsmessage.Message {
	return func(q dnsmessage.Question, _ bool) *dnsmessage.Message {
		return &dnsmessage.Message{Answers: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: ttl},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(ip).As4()}}}}
	}
}

func silent(dnsmessage.Question, bool) *dnsmessage.Message { return nil }

func failing(code dnsmessage.RCode) func(dnsmessage.Question, bool) *dnsmessage.Message {
	return func(dnsmessage.Question, bool) *dnsmessage.Message {
		return &dnsmessage.Message{Header: dnsmessage.Header{RCode: code}}
	}
}

func through(t *testing.T, stubs map[string][]string, ups ...*upstream) *server {
	t.Helper()
	s, _ := synced(t, shop()...)
	s.cfg.Stubs = stubs
	for _, u := range ups {
		s.cfg.Upstreams = append(s.cfg.Upstreams, u.at)
	}
	var err error
	if s.routes, err = s.cfg.routes(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestForward(t *testing.T) {
	main := newUpstream(t, addressed("192.0.2.1", 300))
	stub := newUpstream(t, addressed("192.0.2.2", 300))
	deep := newUpstream(t, addressed("192.0.2.3", 300))
	s := through(t, map[string][]string{"corp.example.": {stub.at.String()}, "deep.corp.example": {deep.at.String()}}, main)
	for name, want := range map[string]string{
		"www.example.com":                "Success\nwww.example.com A 192.0.2.1",
		"corp.example":                   "Success\ncorp.example A 192.0.2.2",
		"A.Corp.Example":                 "Success\nA.Corp.Example A 192.0.2.2",
		"b.deep.corp.example":            "Success\nb.deep.corp.example A 192.0.2.3",
		"notcorp.example":                "Success\nnotcorp.example A 192.0.2.1",
		"outside.shop.svc.cluster.local": "Success\noutside.shop.svc.cluster.local CNAME www.example.com.\nwww.example.com A 192.0.2.1",
	} {
		if got := told(t, s.respond(t, asked(t, name, dnsmessage.TypeA, 0), here)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestForwardCache counts what the upstream is asked: once, whoever asks in whatever letters, until the time is over.
func TestForwardCache(t *testing.T) {
	up := newUpstream(t, addressed("192.0.2.1", 300))
	s := through(t, nil, up)
	for _, name := range []string{"www.example.com", "WWW.example.com", "www.example.com"} {
		if got := told(t, s.respond(t, asked(t, name, dnsmessage.TypeA, 1232), here)); got != "Success\n"+name+" A 192.0.2.1\n+ OPT" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if n := up.asked.Load(); n != 1 {
		t.Errorf("the upstream was asked %d times, want once", n)
	}
	k := cacheKey{name: "www.example.com", typ: typeA, to: s.routes.rest}
	old, fresh := s.out.cache.get(k, time.Now())
	if !fresh || old.keep != maxKeep {
		t.Fatalf("kept for %v, want %v", old.keep, maxKeep)
	}
	if _, fresh := s.out.cache.get(k, time.Now().Add(maxKeep+time.Second)); fresh {
		t.Error("it still holds after its time")
	}
	// The upstream dies, and the answer's time is over: it serves on.
	past := *old
	past.at = past.at.Add(-time.Minute)
	s.out.cache.put(k, &past)
	s.routes.rest.fixed = nil
	if got := told(t, s.respond(t, asked(t, "www.example.com", dnsmessage.TypeA, 0), here)); got != "Success\nwww.example.com A 192.0.2.1" {
		t.Errorf("without an upstream: %s", got)
	}
}

func TestForwardTruncated(t *testing.T) {
	up := newUpstream(t, func(q dnsmessage.Question, tcp bool) *dnsmessage.Message {
		if !tcp {
			return &dnsmessage.Message{Header: dnsmessage.Header{Truncated: true}}
		}
		m := &dnsmessage.Message{}
		for i := range 100 {
			m.Answers = append(m.Answers, addressed(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String(), 60)(q, tcp).Answers...)
		}
		return m
	})
	s := through(t, nil, up)
	long := told(t, s.respond(t, asked(t, "big.example", dnsmessage.TypeA, 0), transport{tcp: true, from: here.from}))
	if strings.Count(long, " A ") != 100 || strings.HasSuffix(long, "TC") {
		t.Errorf("over TCP: %s", long)
	}
	msg := s.respond(t, asked(t, "big.example", dnsmessage.TypeA, 0), here)
	if short := told(t, msg); len(msg) > 512 || strings.Count(short, " A ") < 20 || !strings.HasSuffix(short, "TC") {
		t.Errorf("over UDP, %d bytes: %s", len(msg), short)
	}
}

// TestForwardFaults has upstreams that are dead, refuse, fail or know no such name beside a good one.
func TestForwardFaults(t *testing.T) {
	good := newUpstream(t, addressed("192.0.2.1", 300))
	for name, bad := range map[string]*upstream{"fails": newUpstream(t, failing(dnsmessage.RCodeServerFailure)),
		"refuses": newUpstream(t, failing(dnsmessage.RCodeRefused)),
		"silent":  newUpstream(t, silent), "closed": {at: netip.MustParseAddrPort("127.0.0.1:1")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := through(t, nil, bad, good)
			s.out.failed[good.at] = time.Now() // so that the bad one is asked first
			if got := told(t, s.respond(t, asked(t, "www.example.com", dnsmessage.TypeA, 0), here)); got != "Success\nwww.example.com A 192.0.2.1" {
				t.Error(got)
			}
		})
	}
	s := through(t, nil, newUpstream(t, failing(dnsmessage.RCodeNameError)))
	if got := told(t, s.respond(t, asked(t, "no.example", dnsmessage.TypeA, 0), here)); got != "NameError" {
		t.Error(got)
	}
}

// TestForwardLoop forbids to ask oneself: by the listening address and by the cluster IP.
func TestForwardLoop(t *testing.T) {
	f := newForwarder(newFigures(), []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:10053"),
		netip.MustParseAddrPort("10.96.0.10:53")}, nil)
	list := f.order([]netip.AddrPort{netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.0.0.1:53"),
		netip.MustParseAddrPort("10.0.0.1:10053")})
	if len(list) != 1 || list[0].Port() != 53 || list[0].Addr().String() != "10.0.0.1" {
		t.Errorf("%v", list)
	}
}

func TestForwardTimeout(t *testing.T) {
	s := through(t, nil, newUpstream(t, silent))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q, err := parse(asked(t, "www.example.com", dnsmessage.TypeA, 0), new([maxText]byte))
	if err != nil {
		t.Fatal(err)
	}
	if got := told(t, s.ask(ctx, nil, q, here)); got != "ServerFailure" {
		t.Error(got)
	}
}

func TestCacheBounds(t *testing.T) {
	c, msg := newCache(), asked(t, "x.example", dnsmessage.TypeA, 0)
	for i := range maxCached + 100 {
		st, err := keep(msg, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.put(cacheKey{name: "x", typ: uint16(i)}, st)
	}
	if c.len() != maxCached {
		t.Errorf("%d entries, want %d", c.len(), maxCached)
	}
	big := &stored{msg: make([]byte, 60000)}
	for i := range 1000 {
		c.put(cacheKey{name: "big", typ: uint16(i)}, big)
	}
	if c.bytes > maxBytes {
		t.Errorf("%d bytes, at most %d", c.bytes, maxBytes)
	}
}

func TestResolvConf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	const text = "# a comment\nsearch a b\nnameserver 192.0.2.1\nnameserver nonsense\nnameserver fe80::1%eth0\nnameserver\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u := &upstreams{file: file}
	if got := u.servers(); len(got) != 2 || got[0].String() != "192.0.2.1:53" || got[1].String() != "[fe80::1%eth0]:53" {
		t.Errorf("%v", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	u.looked = time.Time{}
	if got := u.servers(); got != nil {
		t.Errorf("%v of a file that is gone", got)
	}
}

// TestResolvConfAgain: a file that could not be read, or said nothing yet, is read again though it seems to be the same.
func TestResolvConfAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, noon, noon); err != nil {
			t.Fatal(err)
		}
	}
	const one = "nameserver 192.0.2.1\n"
	u := &upstreams{file: file}
	for _, c := range []struct {
		name string
		make func()
		want int
	}{
		{"empty", func() { put("") }, 0},
		{"written within the same tick", func() { put(one) }, 1},
		{"more within the same tick", func() { put(one + "nameserver 192.0.2.2\n") }, 2},
		{"not to be read", func() { put(one + "nameserver 192.0.2.2\n" + strings.Repeat("#", 1<<17)) }, 2},
		{"gone", func() { _ = os.Remove(file) }, 0},
		{"back as it was", func() { put(one + "nameserver 192.0.2.2\n") }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.make()
			u.looked = time.Time{}
			if got := u.servers(); len(got) != c.want {
				t.Errorf("%v, want %d", got, c.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, stubs := range []map[string][]string{{"": {"1.2.3.4"}}, {"a.example": nil}, {"a.example": {"ns.example"}}} {
		if err := (Config{Stubs: stubs}).Check(); err == nil {
			t.Errorf("%v is taken", stubs)
		}
	}
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.m)
}

// TestBytesOfNames: names have any bytes, and ASCII letters alone are the same in both cases.
func TestBytesOfNames(t *testing.T) {
	var heard atomic.Value
	up := newUpstream(t, func(q dnsmessage.Question, tcp bool) *dnsmessage.Message {
		heard.Store(q.Name.String())
		return addressed("192.0.2.1", 300)(q, tcp)
	})
	s, _ := synced(t, shop()...)
	s.routes.rest = &upstreams{fixed: []netip.AddrPort{up.at}}
	s.respond(t, asked(t, "\xc4\xd6.B\u00c4.Example", dnsmessage.TypeA, 0), here)
	if got := heard.Load(); got != "\xc4\xd6.b\u00c4.example." {
		t.Errorf("%q", got)
	}
}

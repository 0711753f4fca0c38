package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

var here = transport{from: netip.MustParseAddr("10.88.0.9")}

// asked is a question as a client's library packs it.
func asked(t testing.TB, name string, typ dnsmessage.Type, udp int) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 7, RecursionDesired: true})
	n, err := dnsmessage.NewName(name + ".")
	if err == nil {
		err = b.StartQuestions()
	}
	if err == nil {
		err = b.Question(dnsmessage.Question{Name: n, Type: typ, Class: dnsmessage.ClassINET})
	}
	if err == nil && udp > 0 {
		if err = b.StartAdditionals(); err == nil {
			var h dnsmessage.ResourceHeader
			if err = h.SetEDNS0(udp, 0, false); err == nil {
				err = b.OPTResource(h, dnsmessage.OPTResource{})
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	msg, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// told reads an answer with another's parser and writes it as text: RCODE, then the answers in order, then "+" and what was added.
func told(t testing.TB, msg []byte) string {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(msg); err != nil {
		t.Fatalf("the answer can't be read: %v", err)
	}
	text := func(list []dnsmessage.Resource) (out []string) {
		for _, r := range list {
			name := strings.TrimSuffix(r.Header.Name.String(), ".")
			switch b := r.Body.(type) {
			case *dnsmessage.AResource:
				out = append(out, fmt.Sprintf("%s A %s", name, netip.AddrFrom4(b.A)))
			case *dnsmessage.AAAAResource:
				out = append(out, fmt.Sprintf("%s AAAA %s", name, netip.AddrFrom16(b.AAAA)))
			case *dnsmessage.CNAMEResource:
				out = append(out, fmt.Sprintf("%s CNAME %s", name, b.CNAME))
			case *dnsmessage.PTRResource:
				out = append(out, fmt.Sprintf("%s PTR %s", name, b.PTR))
			case *dnsmessage.NSResource:
				out = append(out, fmt.Sprintf("%s NS %s", name, b.NS))
			case *dnsmessage.SRVResource:
				out = append(out, fmt.Sprintf("%s SRV %d %d %d %s", name, b.Priority, b.Weight, b.Port, b.Target))
			case *dnsmessage.TXTResource:
				out = append(out, fmt.Sprintf("%s TXT %s", name, b.TXT))
			case *dnsmessage.SOAResource:
				out = append(out, fmt.Sprintf("%s SOA %s min %d", name, b.NS, b.MinTTL))
			case *dnsmessage.OPTResource:
				out = append(out, "OPT")
			}
		}
		slices.Sort(out)
		return out
	}
	all := append([]string{strings.TrimPrefix(m.RCode.String(), "RCode")}, text(m.Answers)...)
	for _, auth := range text(m.Authorities) {
		all = append(all, "! "+auth)
	}
	for _, more := range text(m.Additionals) {
		all = append(all, "+ "+more)
	}
	if m.Truncated {
		all = append(all, "TC")
	}
	return strings.Join(all, "\n")
}

// TestSpecification asks for every record of the Kubernetes DNS specification 1.1.0, and for what is not there.
func TestSpecification(t *testing.T) {
	s, _ := synced(t, shop()...)
	const (
		a, aaaa, srv, p, txt, cname, soa, ns, mx = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeSRV, dnsmessage.TypePTR,
			dnsmessage.TypeTXT,
			dnsmessage.TypeCNAME, dnsmessage.TypeSOA, dnsmessage.TypeNS, dnsmessage.TypeMX
		zone     = "cluster.local"
		in       = "shop.svc.cluster.local"
		nodata   = "Success\n! cluster.local SOA ns.dns.cluster.local. min 5"
		nxdomain = "NameError\n! cluster.local SOA ns.dns.cluster.local. min 5"
	)
	for _, tt := range []struct {
		name string
		typ  dnsmessage.Type
		want string
	}{
		{"dns-version." + zone, txt, "Success\ndns-version.cluster.local TXT [1.1.0]"},
		{"dns-version." + zone, a, nodata},
		{zone, soa, "Success\ncluster.local SOA ns.dns.cluster.local. min 5"},
		{zone, ns, "Success\ncluster.local NS ns.dns.cluster.local.\n+ ns.dns.cluster.local A 10.96.0.10"},
		{zone, a, nodata},
		{"ns.dns." + zone, a, "Success\nns.dns.cluster.local A 10.96.0.10"},
		{"dns." + zone, a, nodata},

		{"web." + in, a, "Success\nweb.shop.svc.cluster.local A 10.96.1.1"},
		{"Web.SHOP.svc.Cluster.Local", a, "Success\nWeb.SHOP.svc.Cluster.Local A 10.96.1.1"},
		{"web." + in, aaaa, nodata},
		{"web." + in, mx, nodata},
		{"dual." + in, a, "Success\ndual.shop.svc.cluster.local A 10.96.1.3"},
		{"dual." + in, aaaa, "Success\ndual.shop.svc.cluster.local AAAA fd00:96::3"},
		{"_http._tcp.web." + in, srv, "Success\n_http._tcp.web.shop.svc.cluster.local SRV 0 100 80 web.shop.svc.cluster.local.\n" +
			"+ web.shop.svc.cluster.local A 10.96.1.1"},
		{"_dns._udp.web." + in, srv, "Success\n_dns._udp.web.shop.svc.cluster.local SRV 0 100 53 web.shop.svc.cluster.local.\n" +
			"+ web.shop.svc.cluster.local A 10.96.1.1"},
		{"_http._tcp.web." + in, a, nodata},
		{"_http._udp.web." + in, srv, nxdomain},
		{"_tcp.web." + in, a, nodata},
		{"_sctp.web." + in, a, nxdomain},
		{"_tcp.one." + in, a, nxdomain},
		{"__tcp._tcp.one." + in, srv, nxdomain},
		{"1.1.96.10.in-addr.arpa", p, "Success\n1.1.96.10.in-addr.arpa PTR web.shop.svc.cluster.local."},
		{"1.1.96.10.in-addr.arpa", a, "Success\n! in-addr.arpa SOA ns.dns.cluster.local. min 5"},
		{"3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa", p,
			"Success\n3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa PTR dual.shop.svc.cluster.local."},
		{"10-88-0-1.web." + in, a, "Success\n10-88-0-1.web.shop.svc.cluster.local A 10.88.0.1"},
		{"10-88-0-2.web." + in, a, nxdomain},

		{"db." + in, a, "Success\ndb.shop.svc.cluster.local A 10.88.0.10\ndb.shop.svc.cluster.local A 10.88.0.11"},
		{"db." + in, aaaa, "Success\ndb.shop.svc.cluster.local AAAA fd00:88::a"},
		{"db-0.db." + in, a, "Success\ndb-0.db.shop.svc.cluster.local A 10.88.0.10"},
		{"db-0.db." + in, aaaa, "Success\ndb-0.db.shop.svc.cluster.local AAAA fd00:88::a"},
		{"db-1.db." + in, aaaa, nodata},
		{"db-2.db." + in, a, nxdomain},
		{"x.db-0.db." + in, a, nxdomain},
		{"_http._tcp.db." + in, srv, "Success\n_http._tcp.db.shop.svc.cluster.local SRV 0 50 8080 db-0.db.shop.svc.cluster.local.\n" +
			"_http._tcp.db.shop.svc.cluster.local SRV 0 50 8080 db-1.db.shop.svc.cluster.local.\n" +
			"+ db-0.db.shop.svc.cluster.local A 10.88.0.10\n+ db-0.db.shop.svc.cluster.local AAAA fd00:88::a\n" +
			"+ db-1.db.shop.svc.cluster.local A 10.88.0.11"},
		{"10.0.88.10.in-addr.arpa", p, "Success\n10.0.88.10.in-addr.arpa PTR db-0.db.shop.svc.cluster.local."},
		{"20.0.88.10.in-addr.arpa", p, "Success\n20.0.88.10.in-addr.arpa PTR 10-88-0-20.plain.shop.svc.cluster.local."},
		{"down." + in, a, nxdomain},
		{"fqdn." + in, a, nxdomain},

		{"outside." + in, cname, "Success\noutside.shop.svc.cluster.local CNAME www.example.com."},
		{"outside." + in, a, "Success\noutside.shop.svc.cluster.local CNAME www.example.com."}, // there is no name server to ask
		{"_http._tcp.outside." + in, srv, nxdomain},
		{"alias." + in, a, "Success\nalias.shop.svc.cluster.local CNAME web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local A 10.96.1.1"},
		{"loop." + in, a, "ServerFailure"},

		{"nowhere." + in, a, nxdomain},
		{"web.nowhere.svc." + zone, a, nxdomain},
		{in, a, nodata},
		{"empty.svc." + zone, a, nodata},
		{"nowhere.svc." + zone, a, nxdomain},
		{"svc." + zone, a, nodata},
		{"pod." + zone, a, nodata},
		{"shop.pod." + zone, a, nodata},
		{"10-88-0-1.shop.pod." + zone, a, "Success\n10-88-0-1.shop.pod.cluster.local A 10.88.0.1"},
		{"fd00--1.shop.pod." + zone, aaaa, "Success\nfd00--1.shop.pod.cluster.local AAAA fd00::1"},
		{"10-88-0-1.shop.pod." + zone, aaaa, nodata},
		{"10-88-0-1.nowhere.pod." + zone, a, nxdomain},
		{"10-88-0.shop.pod." + zone, a, nxdomain},
		{"www.example.com." + in, a, nxdomain}, // what a search path makes of a name with few dots
		{"www.example.com." + zone, a, nxdomain},
		{"notcluster.local", a, "ServerFailure"},
		{"9.9.9.9.in-addr.arpa", p, "ServerFailure"},
		{zone, dnsmessage.TypeAXFR, "Refused"},
	} {
		if got := told(t, s.respond(t, asked(t, tt.name, tt.typ, 0), here)); got != tt.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tt.name, tt.typ, got, tt.want)
		}
	}
}

// TestIPv6Alone asks in a cluster without IPv4: every record is of IPv6, names have no others, and reverse names are whole.
func TestIPv6Alone(t *testing.T) {
	port := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	web, db := svc("web", port, "fd00:96::1"), svc("db", port, corev1.ClusterIPNone)
	ends := slice("db", "db-6", discoveryv1.AddressTypeIPv6, ready("db-0", "fd00:88::a"), ready("", "fd00:88::b"))
	s, _ := synced(t, space("shop"), web, db, ends)
	s.zone.dns = []netip.Addr{netip.MustParseAddr("fd00:96::a")}
	const in, nodata = ".shop.svc.cluster.local", "Success\n! cluster.local SOA ns.dns.cluster.local. min 5"
	const at = "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.8.0.0.0.0.d.f.ip6.arpa"
	a, aaaa, srv, pointer := dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeSRV, dnsmessage.TypePTR
	for _, tt := range []struct {
		name string
		typ  dnsmessage.Type
		want string
	}{
		{"cluster.local", dnsmessage.TypeNS, "Success\ncluster.local NS ns.dns.cluster.local.\n+ ns.dns.cluster.local AAAA fd00:96::a"},
		{"ns.dns.cluster.local", a, nodata},
		{"web" + in, a, nodata},
		{"web" + in, aaaa, "Success\nweb.shop.svc.cluster.local AAAA fd00:96::1"},
		{"_http._tcp.web" + in, srv, "Success\n_http._tcp.web.shop.svc.cluster.local SRV 0 100 80 web.shop.svc.cluster.local.\n" +
			"+ web.shop.svc.cluster.local AAAA fd00:96::1"},
		{"db" + in, a, nodata},
		{"db" + in, aaaa, "Success\ndb.shop.svc.cluster.local AAAA fd00:88::a\ndb.shop.svc.cluster.local AAAA fd00:88::b"},
		{"db-0.db" + in, a, nodata},
		{"fd00-88--b.db" + in, aaaa, "Success\nfd00-88--b.db.shop.svc.cluster.local AAAA fd00:88::b"},
		{"_http._tcp.db" + in, srv, "Success\n_http._tcp.db.shop.svc.cluster.local SRV 0 50 8080 db-0.db.shop.svc.cluster.local.\n" +
			"_http._tcp.db.shop.svc.cluster.local SRV 0 50 8080 fd00-88--b.db.shop.svc.cluster.local.\n" +
			"+ db-0.db.shop.svc.cluster.local AAAA fd00:88::a\n+ fd00-88--b.db.shop.svc.cluster.local AAAA fd00:88::b"},
		{"a.0.0." + at, pointer, "Success\na.0.0." + at + " PTR db-0.db.shop.svc.cluster.local."},
		{"b.0.0." + at, pointer, "Success\nb.0.0." + at + " PTR fd00-88--b.db.shop.svc.cluster.local."},
		{"a.0.0." + at, aaaa, "Success\n! ip6.arpa SOA ns.dns.cluster.local. min 5"},
	} {
		if got := told(t, s.respond(t, asked(t, tt.name, tt.typ, 0), here)); got != tt.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tt.name, tt.typ, got, tt.want)
		}
	}
}

// respond is the whole way of a question.
func (s *server) respond(t testing.TB, msg []byte, from transport) []byte {
	t.Helper()
	out, q, ready := s.handle(newDesk(), msg, from)
	if !ready {
		out = s.ask(t.Context(), nil, q, from)
	}
	return out
}

// TestNotSynced asks before the cluster is known: a negative answer would be believed and kept.
func TestNotSynced(t *testing.T) {
	s, _ := synced(t)
	s.zone = newZone(DefaultDomain, nil)
	for _, name := range []string{"web.shop.svc.cluster.local", "1.1.96.10.in-addr.arpa"} {
		if got := told(t, s.respond(t, asked(t, name, dnsmessage.TypeA, 0), here)); got != "ServerFailure" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestSources(t *testing.T) {
	s, _ := synced(t, shop()...)
	for from, want := range map[string]string{"127.0.0.1": "Success", "10.1.2.3": "Success", "fd00::1": "Success", "169.254.20.10": "Success",
		"100.64.1.1": "Success",
		"8.8.8.8":    "Refused", "2001:db8::1": "Refused", "::ffff:10.1.2.3": "Success"} {
		got := told(t, s.respond(t, asked(t, "web.shop.svc.cluster.local", dnsmessage.TypeA, 0), transport{from: netip.MustParseAddr(from)}))
		if got, _, _ := strings.Cut(got, "\n"); got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}

// TestSize asks for more than fits: whole records are left out, and the bit TC sends the client to TCP.
func TestSize(t *testing.T) {
	objs := shop()
	big := slice("plain", "plain-2", "IPv4")
	for i := range 200 {
		big.Endpoints = append(big.Endpoints, ready(fmt.Sprint("big-", i), fmt.Sprintf("10.90.0.%d", i+1)))
	}
	s, _ := synced(t, append(objs, big)...)
	const name = "plain.shop.svc.cluster.local"
	for _, tt := range []struct {
		udp, most, least int
		tcp              bool
	}{{0, 512, 490, false}, {512, 512, 490, false}, {1232, 1232, 1210, false}, {4096, 1232, 1210, false}, {100, 512, 490, false}, {0,
		65535, 3200, true}} {
		for _, typ := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeSRV} {
			msg := s.respond(t, asked(t, name, typ, tt.udp), transport{tcp: tt.tcp, from: here.from})
			text := told(t, msg)
			if len(msg) > tt.most || typ == dnsmessage.TypeA && len(msg) < tt.least || strings.HasSuffix(text, "TC") == tt.tcp ||
				strings.Contains(text, "OPT") != (tt.udp > 0) {
				t.Errorf("%s, UDP size %d, TCP %t: %d bytes: %s", typ, tt.udp, tt.tcp, len(msg), text)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	s, _ := synced(t, shop()...)
	good := asked(t, "web.shop.svc.cluster.local", dnsmessage.TypeA, 1232)
	change := func(f func(b []byte)) []byte { b := slices.Clone(good); f(b); return b }
	for name, tt := range map[string]struct {
		msg  []byte
		want string // "": no answer
	}{
		"nothing":           {nil, ""},
		"half a header":     {good[:11], ""},
		"an answer":         {change(func(b []byte) { b[2] |= 0x80 }), ""},
		"a header alone":    {good[:12], "FormatError"},
		"half a name":       {good[:20], "FormatError"},
		"no question":       {change(func(b []byte) { b[5] = 0 }), "FormatError"},
		"two questions":     {change(func(b []byte) { b[5] = 2 }), "FormatError"},
		"a pointer ahead":   {change(func(b []byte) { b[12], b[13] = 0xC0, 0xFF }), "FormatError"},
		"a pointer to self": {change(func(b []byte) { b[12], b[13] = 0xC0, 12 }), "FormatError"},
		"an update":         {change(func(b []byte) { b[2] = 5 << 3 }), "NotImplemented"},
		"another class":     {change(func(b []byte) { b[len(b)-12] = 3 }), "Refused"},
		"a later EDNS":      {change(func(b []byte) { b[len(b)-5] = 1 }), "Success"},
	} {
		got, _, _ := s.handle(newDesk(), tt.msg, here)
		if tt.want == "" {
			if got != nil {
				t.Errorf("%s: answered with %x", name, got)
			}
			continue
		}
		if text, _, _ := strings.Cut(told(t, got), "\n"); text != tt.want {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
	}
}

// FuzzHandle throws messages at the server: it never panics, and what it says can be read.
func FuzzHandle(f *testing.F) {
	s, _ := synced(f, shop()...)
	for _, name := range []string{"web.shop.svc.cluster.local", "_http._tcp.db.shop.svc.cluster.local", "1.1.96.10.in-addr.arpa",
		"example.com"} {
		f.Add(asked(f, name, dnsmessage.TypeSRV, 1232), uint16(600))
	}
	f.Fuzz(func(t *testing.T, msg []byte, limit uint16) {
		out, q, ready := s.handle(newDesk(), msg, here)
		if !ready {
			if _, err := (cacheKey{name: q.name, typ: q.typ}).message(1); err != nil {
				t.Fatalf("a question that was read can't be asked: %q", q.name)
			}
		}
		if out != nil {
			told(t, out)
		}
		if st, err := keep(slices.Clone(msg), time.Now()); err == nil && q.end > headerLen {
			st.reply(nil, &q, int(limit))
			st.addresses()
		}
	})
}

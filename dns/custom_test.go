package dns

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/corefile"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// TestCustom: what people add to the ConfigMap coredns-custom holds from the change of the Service on that tells it, and ends with it.
func TestCustom(t *testing.T) {
	main := newUpstream(t, addressed("192.0.2.1", 300))
	stub := newUpstream(t, addressed("192.0.2.2", 300))
	other := newUpstream(t, addressed("192.0.2.3", 300))
	s, w := synced(t, shop()...)
	s.routes.rest = &upstreams{fixed: []netip.AddrPort{main.at}}
	feed := w.Feed(kinds.Services, kinds.EndpointSlices, kinds.Namespaces, kinds.Nodes)
	follow := func() {
		b, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.zone.take(b)
	}
	follow()
	say := func(data map[string]string) {
		t.Helper()
		c, faults := corefile.Parse(data)
		for _, f := range faults {
			t.Error(f)
		}
		obj := svc("kube-dns", nil, "10.96.0.10")
		obj.Namespace = "kube-system"
		obj.Annotations = map[string]string{wellknown.DNSCustomAnnotation: c.Text()}
		w.put(obj)
		follow()
	}
	check := func(when string, answers map[string]string) {
		t.Helper()
		for question, want := range answers {
			name, typ := question, dnsmessage.TypeA
			if n, ok := strings.CutSuffix(question, " PTR"); ok {
				name, typ = n, dnsmessage.TypePTR
			}
			if n, ok := strings.CutSuffix(question, " AAAA"); ok {
				name, typ = n, dnsmessage.TypeAAAA
			}
			if got := told(t, s.respond(t, asked(t, name, typ, 0), here)); got != want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", when, question, got, want)
			}
		}
	}
	check("before", map[string]string{"git.corp.example": "Success\ngit.corp.example A 192.0.2.1"})
	say(map[string]string{
		"a.override": "hosts {\n 203.0.113.7 Build.corp.example build\n 2001:db8::7 build.corp.example\n fallthrough\n}\n" +
			"rewrite name exact shop.example.com web.shop.svc.cluster.local\nrewrite name old.example new.example\n" +
			"forward lab.example " + other.at.String(),
		"b.server": "corp.example:53 {\n log\n errors\n cache 30\n forward . " + stub.at.String() + "\n}\n" +
			"k8s.corp.example {\n rewrite stop {\n  name regex (.*)\\.k8s\\.corp\\.example {1}.shop.svc.cluster.local\n" +
			"  answer name (.*)\\.shop\\.svc\\.cluster\\.local {1}.k8s.corp.example\n }\n forward . 10.96.0.10\n}\n" +
			"only.example {\n hosts {\n  203.0.113.9 a.only.example\n }\n}\n",
	})
	check("with it", map[string]string{
		"git.corp.example":               "Success\ngit.corp.example A 192.0.2.2",
		"build":                          "Success\nbuild A 203.0.113.7",
		"build AAAA":                     "Success",
		"7.113.0.203.in-addr.arpa PTR":   "Success\n7.113.0.203.in-addr.arpa PTR build.\n7.113.0.203.in-addr.arpa PTR build.corp.example.",
		"build.corp.example":             "Success\nbuild.corp.example A 192.0.2.2", // the zone's block decides, as in CoreDNS
		"Shop.Example.com":               "Success\nShop.Example.com A 10.96.1.1",
		"old.example":                    "Success\nold.example A 192.0.2.1",
		"x.lab.example":                  "Success\nx.lab.example A 192.0.2.3",
		"web.k8s.corp.example":           "Success\nweb.k8s.corp.example A 10.96.1.1",
		"none.k8s.corp.example":          "NameError",
		"a.only.example":                 "Success\na.only.example A 203.0.113.9",
		"b.only.example":                 "ServerFailure",
		"web.shop.svc.cluster.local":     "Success\nweb.shop.svc.cluster.local A 10.96.1.1",
		"www.example.com":                "Success\nwww.example.com A 192.0.2.1",
		"outside.shop.svc.cluster.local": "Success\noutside.shop.svc.cluster.local CNAME www.example.com.\nwww.example.com A 192.0.2.1",
	})
	say(map[string]string{"c.override": "hosts {\n 203.0.113.8 www.example.com\n ttl 60\n no_reverse\n fallthrough\n}\nforward . " +
		other.at.String()})
	check("with another", map[string]string{
		"git.corp.example":               "Success\ngit.corp.example A 192.0.2.3",
		"www.example.com":                "Success\nwww.example.com A 203.0.113.8",
		"www.example.com AAAA":           "Success",
		"outside.shop.svc.cluster.local": "Success\noutside.shop.svc.cluster.local CNAME www.example.com.\nwww.example.com A 203.0.113.8",
	})
	say(nil)
	check("after", map[string]string{
		"git.corp.example": "Success\ngit.corp.example A 192.0.2.1",
		"build":            "Success\nbuild A 192.0.2.1",
	})
}

// TestBeforeCustomIsKnown: a server that has not seen the cluster yet says of no name that it is not there, and soon after its start
// asks nobody else for what people may have added. Once the cluster is out of reach for longer, others' addresses serve.
func TestBeforeCustomIsKnown(t *testing.T) {
	up := newUpstream(t, func(q dnsmessage.Question, tcp bool) *dnsmessage.Message {
		if q.Name.String() == "nas.home." {
			return failing(dnsmessage.RCodeNameError)(q, tcp)
		}
		return addressed("192.0.2.1", 300)(q, tcp)
	})
	s, w := synced(t, shop()...)
	s.routes.rest = &upstreams{fixed: []netip.AddrPort{up.at}}
	s.zone = newZone(DefaultDomain, nil)
	check := func(when, name, want string) {
		t.Helper()
		if got := told(t, s.respond(t, asked(t, name, dnsmessage.TypeA, 0), here)); got != want {
			t.Errorf("%s, %s:\n%s\nwant\n%s", when, name, got, want)
		}
	}
	check("at the start", "nas.home", "ServerFailure")
	check("at the start", "www.example.com", "ServerFailure")
	if n := up.asked.Load(); n > 0 {
		t.Errorf("others were asked %d times", n)
	}
	s.zone.began = s.zone.began.Add(-patience)
	check("out of reach", "nas.home", "ServerFailure")
	check("out of reach", "www.example.com", "Success\nwww.example.com A 192.0.2.1")
	c, _ := corefile.Parse(map[string]string{"a.override": "hosts {\n 192.0.2.9 nas.home\n fallthrough\n}"})
	obj := svc("kube-dns", nil, "10.96.0.10")
	obj.Namespace, obj.Annotations = "kube-system", map[string]string{wellknown.DNSCustomAnnotation: c.Text()}
	w.put(obj)
	for s.zone.custom.Load() == nil {
		s.zone.take(client.Batch{Read: w.Read(), Reset: true})
	}
	check("in reach", "nas.home", "Success\nnas.home A 192.0.2.9")
	check("in reach", "www.example.com", "Success\nwww.example.com A 192.0.2.1")
}

// TestRewriteIsBounded: rules that feed each other make no name that is longer than names are, and what is none is not asked for.
func TestRewriteIsBounded(t *testing.T) {
	b := newBlock(corefile.Block{}, "")
	for range 64 {
		b.rewrites = append(b.rewrites, rewriting{Rewrite: corefile.Rewrite{How: "substring", From: "a", To: strings.Repeat("a", 200),
			On: true}})
	}
	if got := b.rewrite("a.example"); len(got) > 253*253 {
		t.Errorf("%d bytes", len(got))
	}
	s, _ := synced(t, shop()...)
	s.zone.custom.Store(&custom{all: b})
	if got := told(t, s.respond(t, asked(t, "a.b", dnsmessage.TypeA, 0), here)); got != "ServerFailure" {
		t.Error(got)
	}
}

// TestReverseName: the name of an address is the one that is read as that address.
func TestReverseName(t *testing.T) {
	for _, text := range []string{"192.0.2.17", "2001:db8::1", "fd00:88::abcd"} {
		a := netip.MustParseAddr(text)
		if got, ok := reverseAddr(reverseName(a)); !ok || got != a {
			t.Errorf("%s: %s is %v", text, reverseName(a), got)
		}
	}
}

// BenchmarkCustom is a cluster's name with a block for others.
func BenchmarkCustom(b *testing.B) {
	s, _ := synced(b, []resource.Object(shop())...)
	c, _ := corefile.Parse(map[string]string{"b.server": "corp.example {\n forward . 192.0.2.1\n}"})
	s.zone.custom.Store(newCustom(c, ""))
	for b.Loop() {
		s.lookup("web.shop.svc.cluster.local", typeA, nil)
	}
}

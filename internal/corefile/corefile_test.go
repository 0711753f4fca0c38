package corefile

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestParse: directives that are known are read as CoreDNS means them, and all others reported with their place.
func TestParse(t *testing.T) {
	all := func(text string) map[string]string { return map[string]string{"a.override": text} }
	zone := func(text string) map[string]string { return map[string]string{"a.server": text} }
	for _, tt := range []struct {
		name   string
		data   map[string]string
		want   Custom
		faults string
	}{
		{"nothing", nil, Custom{}, ""},
		{"what has no meaning here", all("log\nerrors # all\ncache 30 {\n success 100\n}\n\n"), Custom{}, ""},
		{"hosts", all("hosts {\n  10.0.0.1 A.example b.example. # c\n  fd00::1 a.example\n  ttl 60\n  fallthrough\n}"),
			Custom{All: Block{Hosts: []Host{
				{Addr: "10.0.0.1", Names: []string{"a.example", "b.example"}, TTL: 60},
				{Addr: "fd00::1", Names: []string{"a.example"}, TTL: 60}}}}, ""},
		{"hosts for all names without fallthrough", all("hosts {\n 10.0.0.1 a\n}"), Custom{All: Block{Hosts: []Host{{"10.0.0.1", []string{"a"},
			3600, false}}}}, "a.override line 1: without fallthrough no other name would be known; other names are looked up all the same"},
		{"hosts of a zone know all", zone("corp.example. {\n hosts {\n 10.0.0.1 a.corp.example\n no_reverse\n }\n}"), Custom{Zones: []Block{{
			Zones: []string{"corp.example"}, Only: true, Hosts: []Host{{"10.0.0.1", []string{"a.corp.example"}, 3600, true}}}}}, ""},
		{"hosts in another key", map[string]string{"a.override": "hosts /etc/coredns/custom/my.hosts {\n fallthrough\n}",
			"my.hosts": "# mine\n\n10.0.0.1 a"},
			Custom{All: Block{Hosts: []Host{{"10.0.0.1", []string{"a"}, 3600, false}}}}, ""},
		{"hosts that are wrong", all("hosts /etc/hosts {\n 10.0.0 a\n 10.0.0.1\n 10.0.0.1 a..b c\n ttl 0\n fallthrough x\n}"),
			Custom{All: Block{Hosts: []Host{{"10.0.0.1", []string{"c"}, 3600, false}}}},
			"a.override line 1: the file /etc/hosts is not read: /etc/coredns/custom/KEY is one of the keys of this ConfigMap\n" +
				"a.override line 2: \"10.0.0 a\": an entry of hosts is an address and its names\n" +
				"a.override line 3: \"10.0.0.1\": an entry of hosts is an address and its names\n" +
				"a.override line 4: \"a..b\" is no name\na.override line 5: ttl is a number of seconds from 1 to 65535\n" +
				"a.override line 6: fallthrough holds for all names; its zones have no effect"},
		{"stub domains", zone("Corp.example:53 dns://other.example {\n" +
			"  errors\n  forward . 10.0.0.1 dns://[fd00::1]:5353 fd00::2 {\n    policy random\n  }\n}\n"),
			Custom{Zones: []Block{{Zones: []string{"corp.example", "other.example"}, Forwards: []Forward{{To: []string{"10.0.0.1:53",
				"[fd00::1]:5353", "[fd00::2]:53"}}}}}}, ""},
		{"to the machine's name servers", all("forward lab.example /etc/resolv.conf"),
			Custom{All: Block{Forwards: []Forward{{From: "lab.example"}}}}, ""},
		{"forwards that are not there", all("forward . tls://1.1.1.1\nforward .\nforward . 1.1.1.1 {\n force_tcp\n}"),
			Custom{All: Block{Forwards: []Forward{{To: []string{"1.1.1.1:53"}}}}},
			"a.override line 1: \"tls://1.1.1.1\": name servers are ADDRESS, ADDRESS:PORT or /etc/resolv.conf, over plain DNS\n" +
				"a.override line 2: forward wants a zone and the name servers to ask\na.override line 4: kloop's forward has no force_tcp"},
		{"rewrites", all("rewrite name a.example b.example\nrewrite continue name suffix .x.example. .y.example answer auto\n" +
			"rewrite stop {\n name regex (.*)\\.z {1}.default.svc.cluster.local\n answer name (.*) {1}.z\n}"), Custom{All: Block{Rewrites: []Rewrite{
			{"exact", "a.example", "b.example", false}, {"suffix", ".x.example", ".y.example", true},
			{"regex", `(.*)\.z`, "{1}.default.svc.cluster.local", false}}}}, ""},
		{"rewrites that are not there", all("rewrite type ANY HINFO\nrewrite name regex ( x\nrewrite\nrewrite name a " +
			strings.Repeat("b", 300)), Custom{},
			"a.override line 1: kloop's rewrite is of names: rewrite name [exact|prefix|suffix|substring|regex] FROM TO\n" +
				"a.override line 2: error parsing regexp: missing closing ): `(`\n" +
				"a.override line 3: kloop's rewrite is of names: rewrite name [exact|prefix|suffix|substring|regex] FROM TO\n" +
				"a.override line 4: rewrite what is a name, to what can be one"},
		{"what is not there", all("template IN A {\n answer x\n}\nimport x"), Custom{},
			"a.override line 1: kloop's DNS has no template: hosts, forward and rewrite name are there\n" +
				"a.override line 4: kloop's DNS has no import: hosts, forward and rewrite name are there"},
		{"zones that can't be", zone(".:53 {\n forward . 1.1.1.1\n}\na.example:5353 tls://b.example 10.0.0.0/8 {\n" +
			" forward . 1.1.1.1\n}\nc.example {\n log\n}"),
			Custom{}, "a.server line 1: zone \".:53\": of all names the block is kloop's own; use a key that ends in .override\n" +
				"a.server line 4: zone \"a.example:5353\": only port 53 is served\n" +
				"a.server line 4: zone \"tls://b.example\": only plain DNS is served\n" +
				"a.server line 4: zone \"10.0.0.0/8\": write reverse zones as names below in-addr.arpa or ip6.arpa\n" +
				"a.server line 7: nothing says who knows the names of c.example, so the block has no effect"},
		{"braces", all("}\nhosts {\n 10.0.0.1 \"a\"\n fallthrough"), Custom{All: Block{Hosts: []Host{{"10.0.0.1", []string{"a"}, 3600, false}}}},
			"a.override line 1: } closes nothing\na.override line 2: the block is not closed"},
		{"another key", map[string]string{"Corefile": ". {\n}"}, Custom{},
			"Corefile: the key ends neither in .override nor in .server, and no hosts directive names it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, faults := Parse(tt.data)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s:\n%+v, want\n%+v", tt.name, got, tt.want)
			}
			if text := lines(faults); text != tt.faults {
				t.Errorf("%s:\n%s\nwant\n%s", tt.name, text, tt.faults)
			}
			if again, err := Read(got.Text()); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("%s: %+v comes back from its text, %v", tt.name, again, err)
			}
		})
	}
}

func lines(faults []Fault) string {
	var s []string
	for _, f := range faults {
		s = append(s, f.String())
	}
	return strings.Join(s, "\n")
}

// hosts is a directive with so many entries.
func hosts(n int) map[string]string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "10.0.%d.%d host-%d.example.com\n", i/256, i%256, i)
	}
	return map[string]string{"a.override": "hosts {\n" + b.String() + "fallthrough\n}"}
}

// TestMuch: ten thousand hosts fit, and come back; data too large for an annotation is reported, and nothing of it holds.
func TestMuch(t *testing.T) {
	got, faults := Parse(hosts(10000))
	again, err := Read(got.Text())
	if len(faults) > 0 || err != nil || len(got.All.Hosts) != 10000 || !reflect.DeepEqual(got, again) {
		t.Errorf("%d hosts, %v, back come %d, %v", len(got.All.Hosts), faults, len(again.All.Hosts), err)
	}
	got, faults = Parse(hosts(30000))
	if got.Text() != "" || len(faults) != 1 || !strings.Contains(faults[0].Text, "nothing of it is used") {
		t.Errorf("%d bytes, %v", len(got.Text()), faults)
	}
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = w.Write(bytes.Repeat([]byte(" "), maxUnpacked+1))
	_ = w.Close()
	for _, text := range []string{strings.Repeat("x", maxBytes+1), packed + "!", packed, packed + "AAAA",
		packed + base64.StdEncoding.EncodeToString(bomb.Bytes())} {
		if _, err := Read(text); err == nil {
			t.Errorf("%.20s… is read", text)
		}
	}
}

// TestFaultsAreShort: what people wrote by mistake is told in a line that a terminal takes.
func TestFaultsAreShort(t *testing.T) {
	_, faults := Parse(map[string]string{"a.override": strings.Repeat("é", 400000) + "\n\x1b[2J\x07 x"})
	if len(faults) != 2 {
		t.Fatal(len(faults), "faults")
	}
	for _, f := range faults {
		if text := f.String(); len(text) > 2*maxText || strings.ContainsAny(text, "\x1b\x07") || !utf8.ValidString(text) {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}

// FuzzParse: whatever people write, it is read in bounded time, and what comes of it is read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"hosts {\n 10.0.0.1 a\n fallthrough\n}", "a {\n b {\n c {\n d {\n e {\n f {\n}\n", "} } {",
		"rewrite name regex (a b",
		"\"", "forward . [::1]:53", "x.example:53 {\nforward . 1.1.1.1\n}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, key := range []string{"a.override", "a.server"} {
			c, faults := Parse(map[string]string{key: s})
			if _, err := Read(c.Text()); err != nil {
				t.Error(err)
			}
			if len(faults) > maxFaults {
				t.Errorf("%d faults", len(faults))
			}
		}
	})
}

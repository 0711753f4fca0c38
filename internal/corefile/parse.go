package corefile

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of what is read.
const (
	maxDepth  = 4 // blocks in blocks
	maxFaults = 50
	maxText   = 200  // bytes of a fault: a word may be as long as the ConfigMap
	hostsTTL  = 3600 // CoreDNS's, in seconds
	// folder has the keys as files in the CoreDNS pods of k3s and AKS.
	folder = "/etc/coredns/custom/"
)

type parser struct {
	data   map[string]string
	used   map[string]bool // keys that a hosts directive named
	key    string
	out    Custom
	faults []Fault
}

func (p *parser) fault(line int, format string, args ...any) {
	if len(p.faults) == maxFaults {
		return
	}
	text := fmt.Sprintf(format, args...)
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	printable := func(r rune) rune {
		if !strconv.IsPrint(r) {
			return utf8.RuneError // people read it on terminals
		}
		return r
	}
	p.faults = append(p.faults, Fault{p.key, line, strings.Map(printable, text)})
}

// A directive is a line of words, with the block that follows it.
type directive struct {
	line  int
	words []string
	block []directive
}

// tree reads the syntax. What is not closed, or closed twice, is a fault, and what was read counts.
func (p *parser) tree(text string) []directive {
	l := &lexer{rest: text, line: 1}
	list := p.block(l, 0)
	for l.token == "}" {
		p.fault(l.line, "} closes nothing")
		list = append(list, p.block(l, 0)...)
	}
	return list
}

// block reads directives up to the end of the text, or to the brace that closes the block, which is left in the lexer.
func (p *parser) block(l *lexer, depth int) (list []directive) {
	open := false // the last directive of list still takes words
	for l.next() {
		switch {
		case l.token == "\n":
			open = false
		case l.token == "}" && !l.quoted:
			return list
		case l.token == "{" && !l.quoted:
			if !open {
				p.fault(l.line, "{ follows nothing")
				list = append(list, directive{line: l.line})
			}
			from := l.line
			var inner []directive
			if depth < maxDepth {
				inner = p.block(l, depth+1)
			} else {
				p.fault(from, "blocks lie deeper than %d", maxDepth)
			}
			if depth < maxDepth && l.token != "}" {
				p.fault(from, "the block is not closed")
			}
			list[len(list)-1].block = inner
			open = false
		case open:
			list[len(list)-1].words = append(list[len(list)-1].words, l.token)
		default:
			list, open = append(list, directive{line: l.line, words: []string{l.token}}), true
		}
	}
	return list
}

// A lexer gives words, braces that stand alone, and ends of lines.
type lexer struct {
	rest, token string
	line        int
	quoted, nl  bool
}

func (l *lexer) next() bool {
	if l.nl {
		l.line, l.nl = l.line+1, false
	}
	l.quoted = false
	l.rest = strings.TrimLeft(l.rest, " \t\r")
	if strings.HasPrefix(l.rest, "#") {
		at := strings.IndexByte(l.rest, '\n')
		if at < 0 {
			at = len(l.rest)
		}
		l.rest = l.rest[at:]
	}
	if l.rest == "" {
		l.token = ""
		return false
	}
	if l.rest[0] == '"' {
		if at := strings.IndexByte(l.rest[1:], '"'); at >= 0 {
			l.token, l.rest, l.quoted = l.rest[1:1+at], l.rest[2+at:], true
			l.line += strings.Count(l.token, "\n")
			return true
		}
	}
	if l.rest[0] == '\n' {
		l.token, l.rest, l.nl = "\n", l.rest[1:], true
		return true
	}
	at := strings.IndexAny(l.rest, " \t\r\n")
	if at < 0 {
		at = len(l.rest)
	}
	l.token, l.rest = l.rest[:at], l.rest[at:]
	return true
}

// server reads a block with its zones.
func (p *parser) server(d directive) {
	b := Block{}
	for _, z := range d.words {
		zone, bad := zoneOf(strings.TrimSuffix(z, ","))
		if bad != "" {
			p.fault(d.line, "zone %q: %s", z, bad)
			continue
		}
		b.Zones = append(b.Zones, zone)
	}
	if len(b.Zones) == 0 {
		return
	}
	for _, in := range d.block {
		p.directive(&b, in)
	}
	if len(b.Rewrites)+len(b.Hosts)+len(b.Forwards) == 0 {
		p.fault(d.line, "nothing says who knows the names of %s, so the block has no effect", strings.Join(b.Zones, ", "))
		return
	}
	p.out.Zones = append(p.out.Zones, b)
}

// zoneOf reads a zone of a server block, or says what is wrong with it.
func zoneOf(text string) (zone, bad string) {
	text = strings.TrimPrefix(text, "dns://")
	if strings.Contains(text, "://") {
		return "", "only plain DNS is served"
	}
	host, port, _ := strings.Cut(text, ":")
	zone = plain(host)
	switch {
	case port != "" && port != "53":
		return "", "only port 53 is served"
	case zone == "":
		return "", "of all names the block is kloop's own; use a key that ends in .override"
	case strings.Contains(zone, "/"):
		return "", "write reverse zones as names below in-addr.arpa or ip6.arpa"
	case !isName(zone):
		return "", "this is no name"
	}
	return zone, ""
}

func plain(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// isName says that a name can be asked for (RFC 1035: 63 octets a label, 255 in all).
func isName(name string) bool {
	return len(name) <= 253 && !slices.ContainsFunc(strings.Split(name, "."), func(l string) bool { return l == "" || len(l) > 63 })
}

// passed are directives that have no meaning here, or are done anyway.
var passed = []string{"cache", "log", "errors", "loop", "reload", "loadbalance", "ready", "health", "prometheus", "bufsize", "debug",
	"lameduck", "kubernetes", "minimal", "any"}

func (p *parser) directive(b *Block, d directive) {
	if len(d.words) == 0 {
		return
	}
	switch d.words[0] {
	case "hosts":
		p.hosts(b, d)
	case "forward":
		p.forward(b, d)
	case "rewrite":
		p.rewrite(b, d)
	default:
		if !slices.Contains(passed, d.words[0]) {
			p.fault(d.line, "kloop's DNS has no %s: hosts, forward and rewrite name are there", d.words[0])
		}
	}
}

// hosts reads lines as in /etc/hosts, within the block or in another key.
func (p *parser) hosts(b *Block, d directive) {
	list, ttl, noPTR, falls := []Host(nil), uint32(hostsTTL), false, false
	entry := func(line int, words []string) {
		addr, err := netip.ParseAddr(words[0])
		if err != nil || len(words) < 2 {
			p.fault(line, "%q: an entry of hosts is an address and its names", strings.Join(words, " "))
			return
		}
		h := Host{Addr: addr.WithZone("").String()}
		for _, n := range words[1:] {
			if n = plain(n); !isName(n) {
				p.fault(line, "%q is no name", n)
				continue
			}
			h.Names = append(h.Names, n)
		}
		list = append(list, h)
	}
	if len(d.words) > 1 {
		p.hostsFile(d, entry)
	}
	if len(d.words) > 2 {
		p.fault(d.line, "hosts hold for all names of their block; zones behind the file have no effect")
	}
	for _, in := range d.block {
		if len(in.words) == 0 {
			continue
		}
		switch in.words[0] {
		case "fallthrough":
			falls = true
			if len(in.words) > 1 {
				p.fault(in.line, "fallthrough holds for all names; its zones have no effect")
			}
		case "ttl":
			n, err := strconv.ParseUint(strings.Join(in.words[1:], " "), 10, 16)
			if err != nil || n == 0 {
				p.fault(in.line, "ttl is a number of seconds from 1 to 65535")
				continue
			}
			ttl = uint32(n)
		case "no_reverse":
			noPTR = true
		case "reload":
		default:
			entry(in.line, in.words)
		}
	}
	if !falls && b.Zones == nil {
		p.fault(d.line, "without fallthrough no other name would be known; other names are looked up all the same")
	}
	for i := range list {
		list[i].TTL, list[i].NoPTR = ttl, noPTR
	}
	b.Hosts = append(b.Hosts, list...)
	b.Only = b.Only || !falls && b.Zones != nil
}

// hostsFile reads the key that a file is.
func (p *parser) hostsFile(d directive, entry func(line int, words []string)) {
	key := strings.TrimPrefix(strings.TrimPrefix(d.words[1], folder), "custom/")
	text, ok := p.data[key]
	if !ok {
		p.fault(d.line, "the file %s is not read: %s is one of the keys of this ConfigMap", d.words[1], folder+"KEY")
		return
	}
	from := p.key
	p.key, p.used[key] = key, true
	defer func() { p.key = from }()
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			entry(i+1, words)
		}
	}
}

// forward reads whom to ask. Options that tune CoreDNS's connections are passed over, those that change who is asked and how are not.
func (p *parser) forward(b *Block, d directive) {
	if len(d.words) < 3 {
		p.fault(d.line, "forward wants a zone and the name servers to ask")
		return
	}
	f := Forward{From: plain(d.words[1])}
	if f.From != "" && !isName(f.From) {
		p.fault(d.line, "%q is no name", d.words[1])
		return
	}
	for _, in := range d.block {
		if len(in.words) > 0 && slices.Contains([]string{"except", "force_tcp", "tls", "tls_servername", "next", "failover"}, in.words[0]) {
			p.fault(in.line, "kloop's forward has no %s", in.words[0])
		}
	}
	for _, to := range d.words[2:] {
		if to == "/etc/resolv.conf" {
			f.To = nil
			b.Forwards = append(b.Forwards, f)
			return
		}
		text := strings.TrimPrefix(to, "dns://")
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			var a netip.Addr
			a, err = netip.ParseAddr(strings.Trim(text, "[]"))
			at = netip.AddrPortFrom(a, 53)
		}
		if err != nil {
			p.fault(d.line, "%q: name servers are ADDRESS, ADDRESS:PORT or /etc/resolv.conf, over plain DNS", to)
			continue
		}
		f.To = append(f.To, at.String())
	}
	if len(f.To) > 0 {
		b.Forwards = append(b.Forwards, f)
	}
}

// rewrite reads a rule for names. Answers always come under the name that was asked for: what people write for that is passed over.
func (p *parser) rewrite(b *Block, d directive) {
	words, r := d.words[1:], Rewrite{How: "exact"}
	if len(words) > 0 && (words[0] == "stop" || words[0] == "continue") {
		r.On, words = words[0] == "continue", words[1:]
	}
	if len(words) == 0 {
		for _, in := range d.block {
			if len(in.words) > 0 && in.words[0] != "answer" {
				words = append(words, in.words...)
			}
		}
	}
	if at := slices.Index(words, "answer"); at > 0 {
		words = words[:at]
	}
	if len(words) == 4 && slices.Contains([]string{"exact", "prefix", "suffix", "substring", "regex"}, words[1]) {
		r.How, words = words[1], slices.Concat(words[:1], words[2:])
	}
	if len(words) != 3 || words[0] != "name" {
		p.fault(d.line, "kloop's rewrite is of names: rewrite name [exact|prefix|suffix|substring|regex] FROM TO")
		return
	}
	r.From, r.To = plain(words[1]), plain(words[2])
	if r.How == "regex" {
		r.From = words[1]
		if _, err := regexp.Compile(r.From); err != nil {
			p.fault(d.line, "%v", err)
			return
		}
	}
	if r.From == "" || len(r.To) > 253 {
		p.fault(d.line, "rewrite what is a name, to what can be one")
		return
	}
	b.Rewrites = append(b.Rewrites, r)
}

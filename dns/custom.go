package dns

import (
	"net/netip"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/corefile"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// published is the Service by which pods find the DNS. Its annotation says what the ConfigMap coredns-custom adds.
var published = key{corefile.Namespace, "kube-dns"}

// A custom holds the additions of the cluster's people, ready for questions. It never changes once made.
type custom struct {
	text  string  // that it was made of
	all   block   // for the names of no zone
	zones []block // longest zone first
}

// A block rewrites names, knows some, and says whom to ask for others.
type block struct {
	zone     string
	rewrites []rewriting
	hosts    map[string][]record // by name, with reverse names
	only     bool                // hosts know all names of the zone
	forwards routes              // rest is nil when nobody is named for all names
}

type rewriting struct {
	corefile.Rewrite
	pattern *regexp.Regexp
}

// A way says under which name to look, and whom to ask when that is elsewhere.
type way struct {
	from, name string
	ask        *upstreams
}

// customize reads what people added, as it stands on the Service. What can't be read changes nothing: the loop that wrote it is newer.
func (z *zone) customize(read resource.Reader) {
	text := ""
	if s := resource.Get(read, core.Services, published.ns, published.name); s != nil {
		text = s.Annotations[wellknown.DNSCustomAnnotation]
	}
	if old := z.custom.Load(); old == nil && text == "" || old != nil && old.text == text {
		return
	}
	if text == "" {
		z.custom.Store(nil)
		return
	}
	if c, err := corefile.Read(text); err == nil {
		z.custom.Store(newCustom(c, text))
	}
}

func newCustom(c corefile.Custom, text string) *custom {
	out := &custom{text: text, all: newBlock(c.All, "")}
	for _, b := range c.Zones {
		for _, zone := range b.Zones {
			out.zones = append(out.zones, newBlock(b, zone))
		}
	}
	sort.SliceStable(out.zones, func(i, j int) bool { return len(out.zones[i].zone) > len(out.zones[j].zone) })
	return out
}

func newBlock(c corefile.Block, zone string) block {
	b := block{zone: zone, hosts: map[string][]record{}, only: c.Only}
	for _, r := range c.Rewrites {
		w := rewriting{Rewrite: r}
		var err error
		if r.How == "regex" {
			if w.pattern, err = regexp.Compile(r.From); err != nil {
				continue
			}
		}
		b.rewrites = append(b.rewrites, w)
	}
	for _, h := range c.Hosts {
		addr, err := netip.ParseAddr(h.Addr)
		if err != nil {
			continue
		}
		addr = addr.Unmap()
		typ := uint16(typeA)
		if addr.Is6() {
			typ = typeAAAA
		}
		for _, n := range h.Names {
			b.hosts[n] = append(b.hosts[n], record{typ: typ, ttl: h.TTL, addr: addr})
			if r := reverseName(addr); !h.NoPTR {
				b.hosts[r] = append(b.hosts[r], record{typ: typePTR, ttl: h.TTL, target: n})
			}
		}
	}
	for _, f := range c.Forwards {
		b.forward(f)
	}
	b.forwards.sort()
	return b
}

// forward adds name servers; none: those that are asked for all names, which a route without any stands for.
func (b *block) forward(f corefile.Forward) {
	to := &upstreams{}
	for _, text := range f.To {
		if a, err := netip.ParseAddrPort(text); err == nil {
			to.fixed = append(to.fixed, a)
		}
	}
	if len(to.fixed) == 0 {
		to = nil
	}
	b.forwards.stubs = append(b.forwards.stubs, route{f.From, to})
}

// lookup answers a question as the zone does, with what people added before it. Records may lie in room.
func (s *server) lookup(name string, typ uint16, room []record) (answer, way) {
	c := s.zone.custom.Load()
	if c == nil {
		a := s.zone.lookup(name, typ, room)
		switch {
		case !a.elsewhere:
			return a, way{}
		case time.Since(s.zone.began) < patience && !s.zone.complete():
			return answer{rcode: rcodeServFail}, way{}
		}
		return a, way{name, name, s.routes.of(name)}
	}
	b := c.block(name)
	to := way{from: name, name: b.rewrite(name)}
	if list, ok := b.hosts[to.name]; ok {
		return answer{records: ofType(list, typ)}, to
	}
	a := s.zone.lookup(to.name, typ, room)
	if !a.elsewhere {
		return a, to
	}
	at := slices.IndexFunc(b.forwards.stubs, func(r route) bool { return within(to.name, r.domain) })
	switch {
	case b.only || at < 0 && b.zone != "":
		return answer{rcode: rcodeServFail}, to // CoreDNS's answer when no plugin knows
	case at < 0:
		to.ask = s.routes.of(to.name)
	case b.forwards.stubs[at].to == nil:
		to.ask = s.routes.rest
	default:
		to.ask = b.forwards.stubs[at].to
	}
	return a, to
}

// block is that of the longest zone that a name lies in.
func (c *custom) block(name string) *block {
	for i := range c.zones {
		if within(name, c.zones[i].zone) {
			return &c.zones[i]
		}
	}
	return &c.all
}

func ofType(list []record, typ uint16) (out []record) {
	for _, r := range list {
		if r.typ == typ {
			out = append(out, r)
		}
	}
	return out
}

// rewrite applies the first rule that matches, and what follows as long as rules say so.
func (b *block) rewrite(name string) string {
	for _, r := range b.rewrites {
		to, ok := r.apply(name)
		if !ok {
			continue
		}
		if name = strings.TrimSuffix(to, "."); !r.On || len(name) > maxName {
			break
		}
	}
	return name
}

func (r *rewriting) apply(name string) (string, bool) {
	switch r.How {
	case "exact":
		return r.To, name == r.From
	case "prefix":
		rest, ok := strings.CutPrefix(name, r.From)
		return r.To + rest, ok
	case "suffix":
		rest, ok := strings.CutSuffix(name, r.From)
		return rest + r.To, ok
	case "substring":
		return strings.ReplaceAll(name, r.From, r.To), strings.Contains(name, r.From)
	}
	if r.pattern == nil {
		return "", false
	}
	found := r.pattern.FindStringSubmatch(name + ".") // patterns see the dot at the end, as in CoreDNS
	if found == nil {
		return "", false
	}
	var pairs []string
	for i, text := range found {
		pairs = append(pairs, "{"+strconv.Itoa(i)+"}", text)
	}
	return strings.ToLower(strings.NewReplacer(pairs...).Replace(r.To)), true
}

// reverseName is the name below in-addr.arpa or ip6.arpa that stands for an address.
func reverseName(a netip.Addr) string {
	var labels []string
	if a.Is4() {
		for _, b := range a.AsSlice() {
			labels = append(labels, strconv.Itoa(int(b)))
		}
		slices.Reverse(labels)
		return strings.Join(labels, ".") + ".in-addr.arpa"
	}
	for _, b := range a.AsSlice() {
		labels = append(labels, strconv.FormatInt(int64(b>>4), 16), strconv.FormatInt(int64(b&15), 16))
	}
	slices.Reverse(labels)
	return strings.Join(labels, ".") + ".ip6.arpa"
}

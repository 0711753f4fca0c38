package dns

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
)

// The version of the schema, and how long answers may be kept, in seconds.
const (
	schema    = "1.1.0"
	ttl       = 5 // CoreDNS's default: a rollout is seen soon
	schemaTTL = 28800
)

// A record is one resource record. Its owner is the question's name unless it says otherwise.
type record struct {
	owner  string
	typ    uint16
	ttl    uint32
	addr   netip.Addr // A, AAAA
	target string     // CNAME, NS, PTR, SRV
	port   uint16     // SRV
	weight uint16     // SRV
	text   string     // TXT
}

// An answer holds the records for a question, or why there are none.
type answer struct {
	rcode     byte
	records   []record
	more      []record // addresses of SRV targets
	elsewhere bool     // the name is not the zone's: others know
}

var noName = answer{rcode: rcodeNXDomain}

// lookup answers a question about a name in small letters without a dot at its end. Records may lie in room.
func (z *zone) lookup(name string, typ uint16, room []record) answer {
	z.mu.RLock()
	defer z.mu.RUnlock()
	if addr, ok := reverseAddr(name); ok {
		return z.pointers(addr, typ)
	}
	rest, ok := strings.CutSuffix(name, z.domain)
	if !ok || rest != "" && !strings.HasSuffix(rest, ".") {
		return answer{elsewhere: true}
	}
	if !z.synced {
		return answer{rcode: rcodeServFail}
	}
	if rest == "" {
		return z.apex(typ)
	}
	var few [8]string // on the stack; few names have more
	labels := few[:0]
	for label := range strings.SplitSeq(rest[:len(rest)-1], ".") {
		labels = append(labels, label)
	}
	last := len(labels) - 1
	switch labels[last] {
	case "svc":
		return z.below(name, labels[:last], typ, room)
	case "pod":
		return z.pod(labels[:last], typ)
	case "dns-version":
		if last == 0 {
			return only(typ, typeTXT, record{typ: typeTXT, ttl: schemaTTL, text: schema})
		}
	case "dns":
		return z.self(labels[:last], typ)
	}
	return noName
}

// only answers with the records when they are of the type that was asked for, else that there are none of it (NODATA).
func only(asked, typ uint16, list ...record) answer {
	if asked == typ {
		return answer{records: list}
	}
	return answer{}
}

func (z *zone) apex(typ uint16) answer {
	switch typ {
	case typeSOA:
		return answer{records: []record{{typ: typeSOA, ttl: ttl}}}
	case typeNS:
		return answer{records: []record{{typ: typeNS, ttl: ttl, target: "ns.dns." + z.domain}}, more: addrs("ns.dns."+z.domain, 0, z.dns)}
	}
	return answer{}
}

// self is the name server's own name.
func (z *zone) self(labels []string, typ uint16) answer {
	if len(labels) == 0 {
		return answer{}
	}
	if len(labels) == 1 && labels[0] == "ns" {
		return answer{records: addrs("", typ, z.dns)}
	}
	return noName
}

// below answers for names below svc: HOST.SERVICE.NS, _PORT._PROTO.SERVICE.NS and what is shorter.
func (z *zone) below(asked string, labels []string, typ uint16, room []record) answer {
	n := len(labels)
	if n == 0 {
		return answer{}
	}
	ns := labels[n-1]
	if n == 1 {
		return z.space1(ns)
	}
	d := z.services[key{ns, labels[n-2]}]
	if d == nil {
		return noName
	}
	if d.external != "" {
		if n == 2 {
			return answer{records: []record{{typ: typeCNAME, ttl: ttl, target: d.external}}}
		}
		return noName
	}
	own := asked[len(asked)-len(d.name)-len(d.ns)-len(".svc.")-len(z.domain)-1:] // the Service's name
	switch {
	case n == 2:
		return d.whole(own, typ, room)
	case n == 3 && strings.HasPrefix(labels[0], "_"):
		return d.protocol(labels[0][1:])
	case n == 3:
		return d.host(labels[0], typ)
	case n == 4 && strings.HasPrefix(labels[0], "_") && strings.HasPrefix(labels[1], "_"):
		return d.named(own, labels[0][1:], labels[1][1:], typ, room)
	}
	return noName
}

// space1 is a namespace's name, which has no records of its own.
func (z *zone) space1(ns string) answer {
	if z.spaces[ns] {
		return answer{}
	}
	return noName
}

// whole answers for a Service's own name.
func (d *service) whole(own string, typ uint16, room []record) answer {
	if d.headless && len(d.ends) == 0 {
		return noName // the specification's rule: no ready endpoint, no name
	}
	if typ == typeSRV {
		return d.srv(own, room, func(port) bool { return true })
	}
	var few [8]netip.Addr // on the stack
	list := d.addrs
	if d.headless {
		list = few[:0]
		for _, e := range d.ends {
			list = append(list, e.addr)
		}
		list = slices.Compact(list) // sorted by address
	}
	return answer{records: appendAddrs(room, "", typ, list)}
}

// host answers for an endpoint's name. Services with cluster IPs have them too, as in CoreDNS.
func (d *service) host(label string, typ uint16) answer {
	var list []netip.Addr
	addr := undashed(label)
	for _, e := range d.ends {
		if e.label == label || e.label == "" && e.addr == addr {
			list = append(list, e.addr)
		}
	}
	if len(list) == 0 {
		return noName
	}
	return answer{records: addrs("", typ, list)}
}

// protocol answers for _tcp.SERVICE.NS: it exists when something stands below it, and has no records.
func (d *service) protocol(proto string) answer {
	there := func(p port) bool { return p.name != "" && p.protocol == proto }
	if slices.ContainsFunc(d.ports, there) {
		return answer{}
	}
	for _, e := range d.ends {
		if d.headless && slices.ContainsFunc(e.ports, there) {
			return answer{}
		}
	}
	return noName
}

// named answers for the SRV name of a port.
func (d *service) named(own, name, proto string, typ uint16, room []record) answer {
	a := d.srv(own, room, func(p port) bool { return p.name == name && p.protocol == proto && name != "" })
	if len(a.records) == 0 {
		return noName
	}
	if typ != typeSRV {
		return answer{}
	}
	return a
}

// srv makes the SRV records of the ports that match: one a port of a Service with cluster IPs, else one an endpoint and port.
func (d *service) srv(own string, room []record, match func(port) bool) (a answer) {
	half := cap(room) / 2
	a.records, a.more = room[:0:half], room[half:half]
	add := func(target string, ports, told []port) (found bool) {
		for _, p := range ports {
			if !match(p) {
				continue
			}
			found = true
			if !slices.Contains(told, p) {
				a.records = append(a.records, record{typ: typeSRV, ttl: ttl, target: target, port: p.number})
			}
		}
		return found
	}
	if !d.headless {
		if add(own, d.ports, nil) {
			a.more = appendAddrs(a.more, own, 0, d.addrs)
		}
	}
	for i, e := range d.ends {
		if !d.headless {
			break
		}
		target := e.name() + "." + own
		if i > 0 && d.ends[i-1].addr == e.addr && d.ends[i-1].label == e.label {
			continue
		}
		if add(target, e.ports, e.told) {
			a.more = appendAddrs(a.more, target, 0, []netip.Addr{e.addr})
		}
	}
	for i := range a.records {
		a.records[i].weight = uint16(max(1, 100/len(a.records)))
	}
	return a
}

// pod answers for a pod's name by address, 10-0-0-1.NS.pod: the address that stands in it, without looking whether there is such
// a pod, as kubeadm and k3s set CoreDNS up (pods insecure).
func (z *zone) pod(labels []string, typ uint16) answer {
	switch n := len(labels); {
	case n == 0:
		return answer{}
	case n == 1:
		return z.space1(labels[0])
	case n > 2 || !z.spaces[labels[1]]:
		return noName
	}
	a := undashed(labels[0])
	if !a.IsValid() {
		return noName
	}
	return answer{records: addrs("", typ, []netip.Addr{a})}
}

// pointers answers for the reverse name of an address. What is not the cluster's is left to others.
func (z *zone) pointers(addr netip.Addr, typ uint16) (a answer) {
	if !z.synced {
		return answer{rcode: rcodeServFail}
	}
	for d := range z.owners(addr) {
		name := d.name + "." + d.ns + ".svc." + z.domain
		if slices.Contains(d.addrs, addr) {
			return only(typ, typePTR, record{typ: typePTR, ttl: ttl, target: name})
		}
		for _, e := range d.ends {
			if e.addr == addr {
				a.records = append(a.records, record{typ: typePTR, ttl: ttl, target: e.name() + "." + name})
			}
		}
	}
	if len(a.records) == 0 {
		return answer{elsewhere: true}
	}
	return only(typ, typePTR, a.records...)
}

// addrs makes the address records of the type (0: both), beginning anywhere: clients take the first.
func addrs(owner string, typ uint16, list []netip.Addr) []record {
	return appendAddrs(nil, owner, typ, list)
}

func appendAddrs(out []record, owner string, typ uint16, list []netip.Addr) []record {
	from := 0
	if len(list) > 1 {
		from = rand.IntN(len(list))
	}
	for i := range list {
		a, t := list[(from+i)%len(list)], uint16(typeA)
		if a.Is6() {
			t = typeAAAA
		}
		if typ == 0 || t == typ {
			out = append(out, record{owner: owner, typ: t, ttl: ttl, addr: a})
		}
	}
	return out
}

// reverseAddr reads a name below in-addr.arpa or ip6.arpa that names a whole address.
func reverseAddr(name string) (netip.Addr, bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		labels := strings.Split(rest, ".")
		slices.Reverse(labels)
		a, err := netip.ParseAddr(strings.Join(labels, "."))
		return a, err == nil && a.Is4()
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(rest) != 63 {
		return netip.Addr{}, false
	}
	var text strings.Builder
	for i := 62; i >= 0; i -= 2 { // nibbles from the last one on
		text.WriteByte(rest[i])
		if n := (62 - i) / 2; n%4 == 3 && n < 31 {
			text.WriteByte(':')
		}
	}
	a, err := netip.ParseAddr(text.String())
	return a, err == nil
}

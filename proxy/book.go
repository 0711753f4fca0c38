package proxy

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/ipvs"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A book holds what all services want of the kernel, and tells what a change of one changes. All in it can be computed again
// from a snapshot; it is kept so that one more service costs the same among thirty thousand as among three.
type book struct {
	here     here
	services map[key]*service
	claims   map[address][]*service // in no order; nearly always one
	// uses counts what services share; it is in the kernel while somebody uses it.
	uses map[element]int
	ways [2]map[way]int // by family
	turn int            // counts how often a way came into use or went out of it
	udp  bool           // a service with UDP changed
	past past           // of such services

	checked map[key]bool // services with a health check port

	// In mode ipvs only: virtual servers, those that changed since the kernel was told, and who shares the server of a mark.
	servers map[ipvs.Key]server
	moved   map[ipvs.Key]bool
	sharers map[ipvs.Key][]sharer
}

func newBook(h here) *book {
	return &book{here: h, services: map[key]*service{}, claims: map[address][]*service{},
		uses: map[element]int{}, checked: map[key]bool{}, ways: [2]map[way]int{{}, {}},
		past: past{}, servers: map[ipvs.Key]server{}, moved: map[ipvs.Key]bool{}, sharers: map[ipvs.Key][]sharer{}}
}

// A change lists elements that differ, with their data before and after; nil where there was or will be none.
type change map[element]*[2]*string

// update plans the named services anew and returns what that changes.
func (b *book) update(read resource.Reader, names ...key) change {
	next, last := make([]*service, len(names)), make([]*service, len(names))
	touched := map[key]bool{}
	for i, n := range names {
		next[i], last[i] = plan(read, n, &b.here), b.services[n]
		touched[n] = true
		b.rivals(next[i], touched)
		b.rivals(last[i], touched)
	}
	out := change{}
	b.tally(touched, out, 0)
	for i, n := range names {
		b.replace(n, next[i])
	}
	b.tally(touched, out, 1)
	for e, d := range out {
		if d[0] != nil && d[1] != nil && *d[0] == *d[1] {
			delete(out, e)
		}
	}
	for i := range names {
		if strands(last[i], next[i]) {
			b.udp = true
			b.past.add(last[i])
		}
	}
	return out
}

// fill plans all services of a snapshot, into an empty book.
func (b *book) fill(read resource.Reader) {
	for obj := range read.Each(kinds.Services, "") {
		n := key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
		b.replace(n, plan(read, n, &b.here))
	}
	for _, s := range b.services {
		b.serve(s, 1)
		s.elements(b.owner(s), func(e element, _ string, w way) {
			switch e.set {
			case hairpin, virtual:
				b.uses[e]++
			case services:
				b.use(family6(e.v6), w, 1)
			}
		})
	}
	b.udp = true
}

// strands says whether flows of UDP may lead astray once a service is no longer as it was: when an endpoint goes, and when there
// were none, or no service. One more endpoint does not.
func strands(old, now *service) bool {
	if !old.udp() && !now.udp() {
		return false
	}
	same := func(x, y claim) bool { return x.at == y.at }
	if old == nil || now == nil || len(old.lists) == 0 || !slices.EqualFunc(old.claims, now.claims, same) {
		return true
	}
	type end struct {
		list uint64
		at   netip.AddrPort
	}
	left := map[end]bool{}
	for _, l := range now.lists {
		for _, e := range l.ends {
			left[end{l.id &^ 1, e}] = true
		}
	}
	return slices.ContainsFunc(old.lists, func(l list) bool {
		return slices.ContainsFunc(l.ends, func(e netip.AddrPort) bool { return !left[end{l.id &^ 1, e}] })
	})
}

// udp says whether a service has a port of UDP. There need not be a service.
func (s *service) udp() bool {
	return s != nil && slices.ContainsFunc(s.claims, func(c claim) bool { return c.at.protocol == protocolNumber(corev1.ProtocolUDP) })
}

// rivals adds the services that claim an address of s.
func (b *book) rivals(s *service, to map[key]bool) {
	if s == nil {
		return
	}
	for i := range s.claims {
		for _, r := range b.claims[s.claims[i].at] {
			to[r.name] = true
		}
	}
}

// tally takes the elements of services out of the book, or puts them in, and notes them on one side of the change.
func (b *book) tally(names map[key]bool, out change, side int) {
	for n := range names {
		s := b.services[n]
		if s == nil {
			continue
		}
		b.serve(s, 2*side-1)
		s.elements(b.owner(s), func(e element, data string, w way) {
			switch e.set {
			case hairpin, virtual:
				b.count(e, side, out)
				return
			case services:
				b.use(family6(e.v6), w, 2*side-1)
			}
			out.note(e, data, side)
		})
	}
}

// use counts the addresses that share a way.
func (b *book) use(family int, w way, more int) {
	n := b.ways[family][w] + more
	if b.ways[family][w] = n; n == 0 {
		delete(b.ways[family], w)
	}
	if n == 0 || n == more {
		b.turn++
	}
}

func family6(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

// count notes a shared element when its first user comes or its last one goes.
func (b *book) count(e element, side int, out change) {
	before := b.uses[e]
	now := before + 2*side - 1
	b.uses[e] = now
	switch {
	case now == 0:
		delete(b.uses, e)
		out.note(e, "", 0)
	case before == 0 && out[e] != nil:
		delete(out, e) // it was there all the time
	case before == 0:
		out.note(e, "", 1)
	}
}

func (c change) note(e element, data string, side int) {
	d := c[e]
	if d == nil {
		d = &[2]*string{}
		c[e] = d
	}
	d[side] = &data
}

// replace puts a service in the place of the one of its name; nil takes that away.
func (b *book) replace(n key, s *service) {
	if old := b.services[n]; old != nil {
		for i := range old.claims {
			at := old.claims[i].at
			b.claims[at] = slices.DeleteFunc(b.claims[at], func(r *service) bool { return r == old })
			if len(b.claims[at]) == 0 {
				delete(b.claims, at)
			}
		}
		delete(b.services, n)
		delete(b.checked, n)
	}
	if s == nil {
		return
	}
	if s.health != nil {
		b.checked[n] = true
	}
	b.services[n] = s
	for i := range s.claims {
		at := s.claims[i].at
		if !slices.Contains(b.claims[at], s) {
			b.claims[at] = append(b.claims[at], s)
		}
	}
}

// owner tells which of its claims a service has: of those to one address the one of the stronger kind, then of the older
// service, then of the first name.
func (b *book) owner(s *service) func(*claim) bool {
	return func(c *claim) bool {
		rivals := b.claims[c.at]
		if len(rivals) == 1 {
			return true
		}
		return s == slices.MinFunc(rivals, func(x, y *service) int {
			return cmp.Or(x.claimed(c.at)-y.claimed(c.at), x.compare(y))
		})
	}
}

// compare orders services by age, then by name.
func (s *service) compare(o *service) int {
	return cmp.Or(s.made.Compare(o.made.Time), cmp.Compare(s.name.Namespace, o.name.Namespace), cmp.Compare(s.name.Name, o.name.Name))
}

// claimed is the kind of a service's claim to an address.
func (s *service) claimed(at address) int {
	for i := range s.claims {
		if s.claims[i].at == at {
			return s.claims[i].kind
		}
	}
	return externalIP + 1
}

// all lists everything that the sets of one family must hold, by set.
func (b *book) all(v6 bool) (sets [setCount]map[string]string) {
	for i := range sets {
		sets[i] = map[string]string{}
	}
	b.each(v6, func(set int, key, data string) { sets[set][key] = data })
	return sets
}

// each hands out everything that the sets of one family must hold.
func (b *book) each(v6 bool, add func(set int, key, data string)) {
	for _, s := range b.services {
		s.elements(b.owner(s), func(e element, data string, _ way) {
			if e.v6 == v6 && !shared(e.set) {
				add(e.set, e.key, data)
			}
		})
	}
	for e := range b.uses {
		if e.v6 == v6 {
			add(e.set, e.key, "")
		}
	}
	for key, chain := range numbers(b.ways[family6(v6)]) {
		add(ways, key, chain)
	}
}

package dns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// A server answers questions: from the zone at once, from elsewhere by the forwarder.
type server struct {
	cfg    Config
	zone   *zone
	routes routes
	out    *forwarder
	told   *figures
}

func newServer(cfg Config) (*server, error) {
	r, err := cfg.routes()
	if err != nil {
		return nil, err
	}
	s := &server{cfg: cfg, zone: newZone(cfg.Domain, cfg.Cluster), routes: r, told: newFigures()}
	s.out = newForwarder(s.told, append(own(cfg.Addresses, cfg.Port), own(cfg.Cluster, 53)...), cfg.Log)
	return s, nil
}

func own(addrs []netip.Addr, port uint16) (list []netip.AddrPort) {
	for _, a := range addrs {
		list = append(list, netip.AddrPortFrom(a, port))
	}
	return list
}

// maxChain bounds how many aliases are followed within the zone.
const maxChain = 8

// badVersion is the upper part of the rcode BADVERS (RFC 6891).
const badVersion = 1

// A transport says by which protocol a question came, and from which address.
type transport struct {
	tcp  bool
	from netip.Addr
}

func (t transport) limit(q *query) int {
	if t.tcp {
		return maxTCP
	}
	return q.udp
}

// A desk holds the buffers with which one goroutine answers its questions, one after the other, so that they leave nothing for the garbage
// collector: at a hundred thousand a second the heap would stand at twice what is needed.
type desk struct {
	out     []byte
	name    [maxText]byte
	records [16]record
}

func newDesk() *desk { return &desk{out: make([]byte, 0, 4096)} }

// handle answers what the zone knows, at a desk: the answer, and the question while it is ready, hold until the next. ready is false
// when others must be asked: ask does it, and may take long. No answer at all: the message must not get one.
func (s *server) handle(d *desk, msg []byte, t transport) (out []byte, q query, ready bool) {
	q, err := parse(msg, &d.name)
	simple := func(rcode, extended byte) ([]byte, query, bool) {
		r := newReply(d.out, &q, t.limit(&q), rcode, 0)
		return r.message(extended), q, true
	}
	switch {
	case len(q.raw) == 0 || q.flags&flagQR != 0:
		return nil, q, true
	case err != nil:
		q.end, q.edns = headerLen, false // the part that was read may be wrong
		return simple(rcodeFormErr, 0)
	case q.opcode() != 0:
		return simple(rcodeNotImp, 0)
	case !s.zone.serves(t.from), q.class != classIN, q.typ == typeAXFR, q.typ == typeIXFR:
		return simple(rcodeRefused, 0)
	case q.version != 0:
		return simple(rcodeSuccess, badVersion)
	}
	a, _ := s.lookup(q.name, q.typ, d.records[:0])
	if a.elsewhere || s.leadsOut(&q, a) {
		q.name = strings.Clone(q.name)
		return nil, q, false
	}
	return s.write(d.out, &q, t, a), q, true
}

// leadsOut says that an answer is an alias whose target's addresses others know.
func (s *server) leadsOut(q *query, a answer) bool {
	return len(a.records) == 1 && a.records[0].typ == typeCNAME && q.typ != typeCNAME
}

// write puts the zone's answer into a message.
func (s *server) write(buf []byte, q *query, t transport, a answer) []byte {
	r := newReply(buf, q, t.limit(q), a.rcode, flagAA)
	switch {
	case a.rcode == rcodeServFail:
		r.buf[2] &^= flagAA >> 8
	case len(a.records) == 0 && !within(q.name, s.owner(q)): // a name of others, whose zone is not ours
	case len(a.records) == 1 && a.records[0].typ == typeSOA:
		r.soa(answerSection, s.owner(q), s.zone.domain, s.zone.version())
	case len(a.records) == 0:
		r.soa(authoritySection, s.owner(q), s.zone.domain, s.zone.version())
	}
	if len(a.records) > 0 && a.records[0].typ != typeSOA {
		r.add(answerSection, a.records)
	}
	r.add(additionalSection, a.more)
	return r.message(0)
}

// owner is the zone that a question's name lies in.
func (s *server) owner(q *query) string {
	for _, z := range []string{"in-addr.arpa", "ip6.arpa"} {
		if strings.HasSuffix(q.name, z) {
			return z
		}
	}
	return s.zone.domain
}

func (z *zone) version() uint32 {
	z.mu.RLock()
	defer z.mu.RUnlock()
	return z.serial
}

// ask answers what the zone can't by itself: names elsewhere, and aliases of ExternalName Services.
func (s *server) ask(ctx context.Context, buf []byte, q query, t transport) []byte {
	var chain []record
	name := q.name
	for range maxChain {
		a, to := s.lookup(name, q.typ, nil)
		if a.elsewhere {
			return s.forward(ctx, buf, &q, t, to, chain)
		}
		follow := s.leadsOut(&q, a)
		for i := range a.records {
			if name != q.name {
				a.records[i].owner = name
			}
		}
		chain = append(chain, a.records...)
		if !follow {
			a.records = chain
			if len(chain) > 0 && a.rcode == rcodeNXDomain {
				a.rcode = rcodeSuccess // the alias is there, its target is not
			}
			return s.write(buf, &q, t, a)
		}
		name = chain[len(chain)-1].target
	}
	return s.write(buf, &q, t, answer{rcode: rcodeServFail})
}

// forward asks the name servers that know a name. chain are the aliases that led to it.
func (s *server) forward(ctx context.Context, buf []byte, q *query, t transport, to way, chain []record) []byte {
	got, err := s.out.resolve(ctx, to.ask, to.name, q)
	if err != nil {
		s.cfg.Log.Debug("ask the name servers outside the cluster", "name", to.name, "err", err)
		if len(chain) > 0 { // the alias is true all the same
			return s.write(buf, q, t, answer{records: chain})
		}
		return s.write(buf, q, t, answer{rcode: rcodeServFail})
	}
	if !got.positive() && !s.zone.complete() { // it may be a name that people added
		return s.write(buf, q, t, answer{rcode: rcodeServFail})
	}
	if len(chain) == 0 && to.name == q.name {
		return got.reply(buf, q, t.limit(q))
	}
	list := got.addresses()
	for i := range list {
		if list[i].owner == to.name {
			list[i].owner = to.from
		}
		if list[i].owner == q.name {
			list[i].owner = ""
		}
	}
	a := answer{records: slices.Concat(chain, list)}
	if len(chain) == 0 {
		a.rcode = got.rcode()
	}
	return s.write(buf, q, t, a)
}

// buffers hold messages while they are written.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

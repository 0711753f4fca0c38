package dns

import (
	"container/list"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// How long answers of others are kept, and how many. The first three are those of CoreDNS's `cache 30`.
const (
	maxKeep   = 30 * time.Second
	minKeep   = 5 * time.Second
	maxCached = 10000
	maxBytes  = 8 << 20
	staleFor  = time.Hour // after its time an answer serves when nobody gives a better one
)

// A cacheKey is a question to others.
type cacheKey struct {
	name             string // in small letters
	typ              uint16
	dnssec, unproven bool       // the bits DO and CD
	to               *upstreams // others may say something else
}

// message is the question as it is sent.
func (k cacheKey) message(id uint16) ([]byte, error) {
	flags, do := uint16(flagRD), byte(0)
	if k.unproven {
		flags |= flagCD
	}
	if k.dnssec {
		do = 1 << 7
	}
	buf := binary.BigEndian.AppendUint16(nil, id)
	buf = binary.BigEndian.AppendUint16(buf, flags)
	buf = append(buf, 0, 1, 0, 0, 0, 0, 0, 1)
	buf, ok := appendEscaped(buf, k.name)
	if !ok {
		return nil, errName
	}
	buf = binary.BigEndian.AppendUint16(buf, k.typ)
	buf = binary.BigEndian.AppendUint16(buf, classIN)
	return append(buf, 0, 0, typeOPT, maxUDP>>8, maxUDP&0xff, 0, 0, do, 0, 0, 0), nil
}

// appendEscaped writes a name that may have escapes, as readName reads it.
func appendEscaped(buf []byte, name string) ([]byte, bool) {
	if !strings.Contains(name, `\`) {
		return appendName(buf, name)
	}
	start, label := len(buf), []byte{}
	flush := func() bool {
		if len(label) == 0 || len(label) > 63 {
			return false
		}
		buf = append(append(buf, byte(len(label))), label...)
		label = label[:0]
		return true
	}
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] == '\\' && i+1 < len(name):
			i++
			label = append(label, name[i])
		case name[i] == '.':
			if !flush() {
				return buf[:start], false
			}
		default:
			label = append(label, name[i])
		}
	}
	if !flush() || len(buf)+1-start > maxName {
		return buf[:start], false
	}
	return append(buf, 0), true
}

// A stored answer is a message of others, without its OPT record. It never changes.
type stored struct {
	msg     []byte
	body    int  // where its records begin
	records []rr // in their order
	counts  [3]int
	at      time.Time
	keep    time.Duration
}

func (s *stored) rcode() byte { return s.msg[3] & 15 }

// positive says that there are records.
func (s *stored) positive() bool { return s.rcode() == rcodeSuccess && s.counts[answerSection] > 0 }

// keep reads an answer, to be kept.
func keep(msg []byte, now time.Time) (*stored, error) {
	s := &stored{msg: msg, at: now, body: headerLen}
	if binary.BigEndian.Uint16(msg[4:]) > 1 {
		return nil, errors.New("the answer has several questions")
	}
	if binary.BigEndian.Uint16(msg[4:]) == 1 {
		_, at, err := readName(msg, headerLen)
		if err != nil {
			return nil, err
		}
		if s.body = at + 4; len(msg) < s.body {
			return nil, errShort
		}
	}
	least, opt := maxKeep, false
	err := walk(msg, s.body, func(section int, r rr) error {
		if opt = opt || r.typ == typeOPT; opt {
			return nil // it is the last one; what comes behind it is no loss
		}
		s.records, s.counts[section] = append(s.records, r), s.counts[section]+1
		life := time.Duration(r.ttl) * time.Second
		if r.typ == typeSOA && section == authoritySection && r.end-r.data >= 20 {
			life = min(life, time.Duration(binary.BigEndian.Uint32(msg[r.end-4:]))*time.Second) // RFC 2308
		}
		least = min(least, life)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.keep = max(least, minKeep)
	if s.rcode() != rcodeSuccess && s.rcode() != rcodeNXDomain || len(s.records) == 0 {
		s.keep = minKeep
	}
	return s, nil
}

// reply answers a question by a stored message: in the case of the question, with what is left of the times, cut at whole records.
func (s *stored) reply(buf []byte, q *query, limit int) []byte {
	const kept = flagAA | 1<<5 // authoritative no more: it went through a cache; authentic data stays
	r := newReply(buf, q, limit, s.rcode(), binary.BigEndian.Uint16(s.msg[2:])&kept&^flagAA)
	if s.body != q.end {
		return r.message(0) // an error without the question
	}
	age := uint32(max(0, time.Since(s.at)) / time.Second)
	i := 0
	for section, n := range s.counts {
		for range n {
			rec := s.records[i]
			i++
			start := len(r.buf)
			r.buf = append(r.buf, s.msg[rec.start:rec.end]...)
			if len(r.buf) > r.limit {
				r.buf = r.buf[:start]
				if section != additionalSection {
					r.buf[2] |= flagTC >> 8
				}
				return r.message(0)
			}
			left := uint32(ttl)
			if rec.ttl > age {
				left = rec.ttl - age
			}
			binary.BigEndian.PutUint32(r.buf[start+rec.ttlAt()-rec.start:], left)
			r.count(section)
		}
	}
	return r.message(0)
}

// addresses are the aliases and addresses of an answer, for one that leads to them.
func (s *stored) addresses() (list []record) {
	for i, r := range s.records {
		if i >= s.counts[answerSection] {
			break
		}
		owner, _, err := readName(s.msg, r.start)
		if err != nil {
			continue
		}
		rec := record{owner: owner, typ: r.typ, ttl: min(r.ttl, uint32(maxKeep/time.Second))}
		switch r.typ {
		case typeCNAME:
			if rec.target, _, err = readName(s.msg, r.data); err != nil {
				continue
			}
		case typeA, typeAAAA:
			a, ok := netip.AddrFromSlice(s.msg[r.data:r.end])
			if !ok || a.Is4() != (r.typ == typeA) {
				continue
			}
			rec.addr = a
		default:
			continue
		}
		if !strings.Contains(owner+rec.target, `\`) {
			list = append(list, rec)
		}
	}
	return list
}

// A cache holds answers, bounded in number and bytes; what was not used for the longest time goes first.
type cache struct {
	mu    sync.Mutex
	m     map[cacheKey]*list.Element
	order *list.List // of *cacheEntry, the newest use first
	bytes int
}

type cacheEntry struct {
	key cacheKey
	*stored
}

func newCache() *cache { return &cache{m: map[cacheKey]*list.Element{}, order: list.New()} }

// get returns what is known, and whether it still holds.
func (c *cache) get(k cacheKey, now time.Time) (s *stored, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.m[k]
	if e == nil {
		return nil, false
	}
	s = e.Value.(*cacheEntry).stored
	age := now.Sub(s.at)
	if age > s.keep+staleFor {
		c.remove(e)
		return nil, false
	}
	c.order.MoveToFront(e)
	return s, age < s.keep
}

func (c *cache) put(k cacheKey, s *stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.m[k]; e != nil {
		if old := e.Value.(*cacheEntry); s.rcode() == rcodeServFail && old.rcode() != rcodeServFail {
			return // the old answer may still serve
		}
		c.remove(e)
	}
	c.m[k] = c.order.PushFront(&cacheEntry{k, s})
	c.bytes += s.size()
	for c.bytes > maxBytes || len(c.m) > maxCached {
		c.remove(c.order.Back())
	}
}

// size is about what a stored answer takes.
func (s *stored) size() int { return len(s.msg) + 48*len(s.records) + 300 }

func (c *cache) remove(e *list.Element) {
	old := c.order.Remove(e).(*cacheEntry)
	delete(c.m, old.key)
	c.bytes -= old.size()
}

package dns

import "encoding/binary"

// A reply is an answer while it is written: the header and the question, then records as long as they fit.
type reply struct {
	q     query // a copy: a pointer would put every question on the heap
	buf   []byte
	limit int
	full  bool // something did not fit
	last  struct {
		target string // of the SRV record that was written last, and where it stands: its address needs no second copy
		at     int
	}
}

// Sections of a message.
const (
	answerSection = iota
	authoritySection
	additionalSection
)

// optLen is the length of an OPT record without options.
const optLen = 11

// newReply begins an answer in buf, which is emptied. limit bounds its length.
func newReply(buf []byte, q *query, limit int, rcode byte, flags uint16) (r reply) {
	r.q, r.limit = *q, limit
	if q.edns {
		r.limit -= optLen
	}
	r.buf = binary.BigEndian.AppendUint16(buf[:0], q.id)
	r.buf = binary.BigEndian.AppendUint16(r.buf, flagQR|flagRA|flags|q.flags&(flagRD|flagCD)|uint16(rcode&15))
	r.buf = append(r.buf, 0, 0, 0, 0, 0, 0, 0, 0)
	if q.end > headerLen {
		r.buf[5] = 1
		r.buf = append(r.buf, q.raw[headerLen:q.end]...) // in the case of the question
	}
	return r
}

// refuse is the answer to a question too many.
func refuse(buf []byte, q *query, limit int) []byte {
	r := newReply(buf, q, limit, rcodeRefused, 0)
	return r.message(0)
}

// begin writes a record up to its data and returns where its data's length stands.
func (r *reply) begin(owner string, typ uint16, ttl uint32) int {
	switch {
	case owner == "":
		r.pointer(headerLen)
	case owner == r.last.target:
		r.pointer(r.last.at)
	default:
		r.name(owner)
	}
	r.buf = binary.BigEndian.AppendUint16(r.buf, typ)
	r.buf = binary.BigEndian.AppendUint16(r.buf, classIN)
	r.buf = binary.BigEndian.AppendUint32(r.buf, ttl)
	r.buf = append(r.buf, 0, 0)
	return len(r.buf) - 2
}

func (r *reply) pointer(to int) { r.buf = binary.BigEndian.AppendUint16(r.buf, 0xC000|uint16(to)) }

func (r *reply) name(n string) {
	var ok bool
	if r.buf, ok = appendName(r.buf, n); !ok {
		r.buf = append(r.buf, 0) // can't be: names are checked before they come here
	}
}

// end closes a record: one that does not fit is taken back, and with it all that would follow in the section.
func (r *reply) end(section, start, length int) {
	if len(r.buf) > r.limit {
		r.buf, r.full = r.buf[:start], true
		if section != additionalSection {
			r.buf[2] |= flagTC >> 8
		}
		return
	}
	binary.BigEndian.PutUint16(r.buf[length:], uint16(len(r.buf)-length-2))
	r.count(section)
}

func (r *reply) count(section int) {
	at := 6 + 2*section
	binary.BigEndian.PutUint16(r.buf[at:], binary.BigEndian.Uint16(r.buf[at:])+1)
}

// add writes records.
func (r *reply) add(section int, list []record) {
	for i := range list {
		if r.full {
			return
		}
		rec, start := &list[i], len(r.buf)
		length := r.begin(rec.owner, rec.typ, rec.ttl)
		switch rec.typ {
		case typeA, typeAAAA:
			r.buf = append(r.buf, rec.addr.AsSlice()...)
		case typeSRV:
			r.buf = binary.BigEndian.AppendUint16(r.buf, 0)
			r.buf = binary.BigEndian.AppendUint16(r.buf, rec.weight)
			r.buf = binary.BigEndian.AppendUint16(r.buf, rec.port)
			if at := len(r.buf); at < 1<<14 {
				r.last.target, r.last.at = rec.target, at
			}
			r.name(rec.target)
		case typeTXT:
			r.buf = append(append(r.buf, byte(len(rec.text))), rec.text...)
		default:
			r.name(rec.target)
		}
		r.end(section, start, length)
	}
}

// soa writes the zone's SOA record. zone is the end of the question's name that is the zone, as text.
func (r *reply) soa(section int, zone, domain string, serial uint32) {
	start := len(r.buf)
	length := r.begin(zone, typeSOA, ttl)
	r.name("ns.dns." + domain)
	r.name("hostmaster." + domain)
	for _, n := range []uint32{serial, 7200, 1800, 86400, ttl} { // refresh, retry and expire are CoreDNS's
		r.buf = binary.BigEndian.AppendUint32(r.buf, n)
	}
	r.end(section, start, length)
}

// message closes the answer: with an OPT record when the question had one (RFC 6891). extended is the upper part of the rcode.
func (r *reply) message(extended byte) []byte {
	if r.q.edns {
		r.buf = append(r.buf, 0)
		r.buf = binary.BigEndian.AppendUint16(r.buf, typeOPT)
		r.buf = binary.BigEndian.AppendUint16(r.buf, maxUDP)
		var do byte
		if r.q.dnssec {
			do = 1 << 7
		}
		r.buf = append(r.buf, extended, 0, do, 0, 0, 0)
		r.count(additionalSection)
	}
	return r.buf
}

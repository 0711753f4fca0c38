package dns

import (
	"encoding/binary"
	"errors"
	"strings"
	"unsafe"
)

// What of the protocol is used here (RFC 1035, 2782, 3596, 6891). Messages are read and written in place: a question costs
// a few hundred nanoseconds and next to no memory.
const (
	typeA     = 1
	typeNS    = 2
	typeCNAME = 5
	typeSOA   = 6
	typePTR   = 12
	typeTXT   = 16
	typeAAAA  = 28
	typeSRV   = 33
	typeOPT   = 41
	typeIXFR  = 251
	typeAXFR  = 252

	classIN = 1

	rcodeSuccess  = 0
	rcodeFormErr  = 1
	rcodeServFail = 2
	rcodeNXDomain = 3
	rcodeNotImp   = 4
	rcodeRefused  = 5

	flagQR = 1 << 15
	flagAA = 1 << 10
	flagTC = 1 << 9
	flagRD = 1 << 8
	flagRA = 1 << 7
	flagCD = 1 << 4

	headerLen = 12
	plainUDP  = 512  // largest answer over UDP without EDNS
	maxUDP    = 1232 // with EDNS: it passes every path unfragmented (DNS flag day 2020)
	maxTCP    = 65535
	maxName   = 255
	maxText   = 2 * maxName // of a name with an escape for every byte
)

var (
	errShort = errors.New("the message ends too early")
	errName  = errors.New("a name is malformed")
)

// A query is a message with one question, read in place.
type query struct {
	raw   []byte
	id    uint16
	flags uint16
	name  string // in small letters, without a dot at its end; as long as the desk's next question has not come
	typ   uint16
	class uint16
	end   int // of the question in raw

	edns    bool
	dnssec  bool // the DO bit
	udp     int  // largest answer over UDP
	version byte // of EDNS
}

// opcode is 0 for an ordinary query.
func (q *query) opcode() uint16 { return q.flags >> 11 & 15 }

// parse reads a query; its name lies in room. What is too short to have a header, and answers, get no answer;
// other malformed messages have at least their id and flags read.
func parse(msg []byte, room *[maxText]byte) (q query, err error) {
	if len(msg) < headerLen {
		return q, errShort
	}
	q = query{raw: msg, id: binary.BigEndian.Uint16(msg), flags: binary.BigEndian.Uint16(msg[2:]), udp: plainUDP, end: headerLen}
	if q.flags&flagQR != 0 || q.opcode() != 0 {
		return q, nil
	}
	if binary.BigEndian.Uint16(msg[4:]) != 1 {
		return q, errors.New("not one question")
	}
	name, at, err := appendText(room[:0], msg, headerLen)
	if err != nil {
		return q, err
	}
	if len(msg) < at+4 {
		return q, errShort
	}
	for i, c := range name { // of ASCII alone (RFC 4343)
		if 'A' <= c && c <= 'Z' {
			name[i] = c + 'a' - 'A'
		}
	}
	q.name, q.typ, q.class, q.end = unsafe.String(unsafe.SliceData(name), len(name)), binary.BigEndian.Uint16(msg[at:]),
		binary.BigEndian.Uint16(msg[at+2:]), at+4
	return q, q.options()
}

// options reads the OPT record (EDNS).
func (q *query) options() error {
	return walk(q.raw, q.end, func(_ int, r rr) error {
		if r.typ == typeOPT && !q.edns {
			q.edns, q.dnssec, q.version = true, r.ttl&(1<<15) != 0, byte(r.ttl>>16)
			q.udp = min(max(int(r.class), plainUDP), maxUDP)
		}
		return nil
	})
}

// An rr is a resource record in a message: where it lies, and what its fixed part says.
type rr struct {
	start, data, end int // of the record, its data, and what follows
	typ, class       uint16
	ttl              uint32
}

// ttlAt returns the place of the record's TTL.
func (r rr) ttlAt() int { return r.data - 6 }

// walk calls visit for every record after the questions, which end at from. section is 0 for answers, 1 for the authority
// section, 2 for additional records.
func walk(msg []byte, from int, visit func(section int, r rr) error) error {
	at := from
	for section := range 3 {
		for range binary.BigEndian.Uint16(msg[6+2*section:]) {
			r := rr{start: at}
			next, err := skipName(msg, at)
			if err != nil {
				return err
			}
			if len(msg) < next+10 {
				return errShort
			}
			r.typ, r.class = binary.BigEndian.Uint16(msg[next:]), binary.BigEndian.Uint16(msg[next+2:])
			r.ttl, r.data = binary.BigEndian.Uint32(msg[next+4:]), next+10
			r.end = r.data + int(binary.BigEndian.Uint16(msg[next+8:]))
			if len(msg) < r.end {
				return errShort
			}
			if err := visit(section, r); err != nil {
				return err
			}
			at = r.end
		}
	}
	return nil
}

func skipName(msg []byte, at int) (int, error) {
	for at < len(msg) {
		switch c := msg[at]; {
		case c == 0:
			return at + 1, nil
		case c&0xC0 == 0xC0:
			return at + 2, nil
		case c&0xC0 != 0:
			return 0, errName
		default:
			at += 1 + int(c)
		}
	}
	return 0, errShort
}

// readName reads a name as text without a dot at its end, and says where what follows begins.
func readName(msg []byte, at int) (string, int, error) {
	var room [maxText]byte // on the stack
	text, end, err := appendText(room[:0], msg, at)
	return string(text), end, err
}

// appendText is readName into what the caller has. Pointers lead back only, so it ends.
func appendText(text, msg []byte, at int) ([]byte, int, error) {
	end, limit := 0, at
	for {
		if at >= len(msg) {
			return nil, 0, errShort
		}
		c := int(msg[at])
		switch {
		case c == 0:
			if end == 0 {
				end = at + 1
			}
			if len(text) > 0 {
				text = text[:len(text)-1]
			}
			return text, end, nil
		case c&0xC0 == 0xC0:
			if at+1 >= len(msg) {
				return nil, 0, errShort
			}
			to := c&0x3F<<8 | int(msg[at+1])
			if to >= limit {
				return nil, 0, errName
			}
			if end == 0 {
				end = at + 2
			}
			at, limit = to, to
		case c&0xC0 != 0 || len(text)+c+1 >= maxName:
			return nil, 0, errName
		case at+1+c > len(msg):
			return nil, 0, errShort
		default:
			text = appendLabel(text, msg[at+1:at+1+c])
			at += 1 + c
		}
	}
}

// appendLabel escapes dots, so that no label looks like two.
func appendLabel(text, label []byte) []byte {
	for _, c := range label {
		if c == '.' || c == '\\' {
			text = append(text, '\\')
		}
		text = append(text, c)
	}
	return append(text, '.')
}

// appendName writes a name uncompressed; ok is false when it is none. Names of the cluster have no escapes.
func appendName(buf []byte, name string) (out []byte, ok bool) {
	start := len(buf)
	for rest := name; rest != ""; {
		label, more, _ := strings.Cut(rest, ".")
		if label == "" || len(label) > 63 {
			return buf[:start], false
		}
		buf = append(append(buf, byte(len(label))), label...)
		rest = more
	}
	if buf = append(buf, 0); len(buf)-start > maxName {
		return buf[:start], false
	}
	return buf, true
}

package systemd

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kinds of messages, and the fields of their headers, by the D-Bus specification.
const (
	methodCall, methodReturn, failure, signal = 1, 2, 3, 4

	fieldPath, fieldInterface, fieldMember, fieldError, fieldReply = 1, 2, 3, 4, 5
	fieldDestination, fieldSender, fieldSignature, fieldFDs        = 6, 7, 8, 9
)

// maxMessage bounds a message, in bytes; logind's are some hundred long.
const maxMessage = 1 << 20

// A message is one of D-Bus, as far as a client of logind sees it.
type message struct {
	kind          byte
	serial, reply uint32
	path, iface   string
	member, dest  string
	sender        string
	failed        string // name of the error
	signature     string
	fds           uint32 // file descriptors that come with it
	body          []byte
	order         binary.ByteOrder // of a message that was read
}

// A writer lays values out as D-Bus has them: little endian, each at a multiple of its size.
type writer struct{ b []byte }

func (w *writer) align(n int) {
	for len(w.b)%n != 0 {
		w.b = append(w.b, 0)
	}
}

func (w *writer) number(v uint32) {
	w.align(4)
	w.b = binary.LittleEndian.AppendUint32(w.b, v)
}

func (w *writer) text(s string) {
	w.number(uint32(len(s)))
	w.b = append(append(w.b, s...), 0)
}

// field writes a field of a header.
func (w *writer) field(code byte, kind byte, text string, n uint32) {
	w.align(8)
	w.b = append(w.b, code, 1, kind, 0)
	switch kind {
	case 'u':
		w.number(n)
	case 'g':
		w.b = append(append(append(w.b, byte(len(text))), text...), 0)
	default:
		w.text(text)
	}
}

// put writes a value, and returns the signature of its type.
func (w *writer) put(v any) string {
	switch v := v.(type) {
	case string:
		w.text(v)
		return "s"
	case int32:
		w.number(uint32(v))
		return "i"
	case uint32:
		w.number(v)
		return "u"
	case bool:
		w.number(map[bool]uint32{true: 1}[v])
		return "b"
	case uint64:
		w.align(8)
		w.b = binary.LittleEndian.AppendUint64(w.b, v)
		return "t"
	case []Property:
		w.properties(v)
		return "a(sv)"
	case noUnits:
		w.number(0)
		w.align(8) // of the structures that are not there
		return "a(sa(sv))"
	}
	panic("a type of D-Bus that is not known here")
}

// properties writes an array of names with variants. The length leaves out what aligns its first element.
func (w *writer) properties(list []Property) {
	w.number(0)
	at := len(w.b)
	w.align(8)
	begin := len(w.b)
	for _, p := range list {
		w.align(8)
		w.text(p.Name)
		w.b = append(w.b, 1, new(writer).put(p.Value)[0], 0)
		w.put(p.Value)
	}
	binary.LittleEndian.PutUint32(w.b[at-4:], uint32(len(w.b)-begin))
}

// bytes lays the message out. Arguments are of the types that put knows.
func (m message) bytes(args ...any) []byte {
	var body writer
	for _, a := range args {
		m.signature += body.put(a)
	}
	if m.body != nil { // laid out already, with its signature
		body.b = m.body
	}
	w := writer{[]byte{'l', m.kind, 0, 1}}
	w.number(uint32(len(body.b)))
	w.number(m.serial)
	w.number(0) // length of the fields, below
	begin := len(w.b)
	for _, f := range []struct {
		code byte
		kind byte
		text string
	}{{fieldPath, 'o', m.path}, {fieldInterface, 's', m.iface}, {fieldMember, 's', m.member}, {fieldError, 's', m.failed},
		{fieldDestination, 's', m.dest}, {fieldSignature, 'g', m.signature}} {
		if f.text != "" {
			w.field(f.code, f.kind, f.text, 0)
		}
	}
	if m.reply != 0 {
		w.field(fieldReply, 'u', "", m.reply)
	}
	if m.fds != 0 {
		w.field(fieldFDs, 'u', "", m.fds)
	}
	binary.LittleEndian.PutUint32(w.b[begin-4:], uint32(len(w.b)-begin))
	w.align(8)
	return append(w.b, body.b...)
}

var errMalformed = errors.New("a malformed message of D-Bus")

// A reader reads values; after the first that is not there it reads nothing more.
type reader struct {
	b   []byte
	at  int
	ord binary.ByteOrder
	bad bool
}

func (r *reader) take(n, align int) []byte {
	if rest := r.at % align; rest != 0 {
		r.at += align - rest
	}
	if r.bad || n < 0 || n > len(r.b) || r.at > len(r.b)-n {
		r.bad = true
		return make([]byte, min(max(n, 0), 8))
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *reader) number() uint32 { return r.ord.Uint32(r.take(4, 4)) }

func (r *reader) text() string {
	n := r.number()
	if n > maxMessage {
		r.bad = true
		return ""
	}
	s := string(r.take(int(n), 1))
	r.take(1, 1)
	return s
}

func (r *reader) signature() string {
	n := int(r.take(1, 1)[0])
	s := string(r.take(n, 1))
	r.take(1, 1)
	return s
}

// value reads a value of a basic type, or a variant with one in it. nil: of another type.
func (r *reader) value(kind string) any {
	switch kind {
	case "s", "o":
		return r.text()
	case "g":
		return r.signature()
	case "u", "h":
		return r.number()
	case "b":
		return r.number() != 0
	case "t":
		return r.ord.Uint64(r.take(8, 8))
	case "v":
		if inner := r.signature(); inner != "v" {
			return r.value(inner)
		}
	}
	r.bad = true
	return nil
}

// size tells how long a message is whose first 16 bytes are head.
func size(head []byte) (fields, total int, err error) {
	ord, err := order(head[0])
	if err != nil {
		return 0, 0, err
	}
	body, list := ord.Uint32(head[4:]), ord.Uint32(head[12:])
	if body > maxMessage || list > maxMessage {
		return 0, 0, fmt.Errorf("%w: %d bytes", errMalformed, uint64(body)+uint64(list))
	}
	fields = int(list)
	return fields, (16+fields+7)/8*8 + int(body), nil
}

func order(mark byte) (binary.ByteOrder, error) {
	switch mark {
	case 'l':
		return binary.LittleEndian, nil
	case 'B':
		return binary.BigEndian, nil
	}
	return nil, errMalformed
}

// parse reads a whole message.
func parse(b []byte) (m message, err error) {
	if len(b) < 16 {
		return m, errMalformed
	}
	fields, total, err := size(b)
	if err != nil || total != len(b) {
		return m, errors.Join(errMalformed, err)
	}
	ord, _ := order(b[0])
	m.order, m.kind, m.serial = ord, b[1], ord.Uint32(b[8:])
	r := reader{b: b[:16+fields], at: 16, ord: ord}
	for r.at < len(r.b) && !r.bad {
		code := r.take(1, 8)[0]
		v := r.value("v")
		text, _ := v.(string)
		n, _ := v.(uint32)
		switch code {
		case fieldPath:
			m.path = text
		case fieldInterface:
			m.iface = text
		case fieldMember:
			m.member = text
		case fieldError:
			m.failed = text
		case fieldReply:
			m.reply = n
		case fieldSender:
			m.sender = text
		case fieldSignature:
			m.signature = text
		case fieldFDs:
			m.fds = n
		}
	}
	if r.bad {
		return m, errMalformed
	}
	m.body = b[(16+fields+7)/8*8:]
	return m, nil
}

// first reads the first value of a message's body; nil: it has none that is known here.
func (m message) first() any {
	if m.signature == "" {
		return nil
	}
	r := reader{b: m.body, ord: m.order}
	v := r.value(m.signature[:1])
	if r.bad {
		return nil
	}
	return v
}

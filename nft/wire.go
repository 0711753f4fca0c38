package nft

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// wire builds netlink messages, one after the other, in one buffer. Lengths are filled in when a part ends.
type wire struct{ b []byte }

var native = binary.NativeEndian

// begin starts a message and returns where.
func (w *wire) begin(typ uint16, flags uint16, seq uint32, family byte, resource uint16) int {
	at := len(w.b)
	w.b = native.AppendUint32(w.b, 0)
	w.b = native.AppendUint16(w.b, typ)
	w.b = native.AppendUint16(w.b, unix.NLM_F_REQUEST|flags)
	w.b = native.AppendUint32(w.b, seq)
	w.b = native.AppendUint32(w.b, 0)
	w.b = append(w.b, family, unix.NFNETLINK_V0)
	w.b = binary.BigEndian.AppendUint16(w.b, resource)
	return at
}

func (w *wire) end(at int) { native.PutUint32(w.b[at:], uint32(len(w.b)-at)) }

// nest starts an attribute of attributes and returns where.
func (w *wire) nest(typ uint16) int {
	at := len(w.b)
	w.b = native.AppendUint16(w.b, 0)
	w.b = native.AppendUint16(w.b, typ|unix.NLA_F_NESTED)
	return at
}

func (w *wire) close(at int) { native.PutUint16(w.b[at:], uint16(len(w.b)-at)) }

func attr[T []byte | string](w *wire, typ uint16, data T) {
	w.b = native.AppendUint16(w.b, uint16(4+len(data)))
	w.b = native.AppendUint16(w.b, typ)
	w.b = append(w.b, data...)
	for len(w.b)%4 != 0 {
		w.b = append(w.b, 0)
	}
}

// name is an attribute of text that ends with a zero.
func (w *wire) name(typ uint16, s string) {
	w.b = native.AppendUint16(w.b, uint16(5+len(s)))
	w.b = native.AppendUint16(w.b, typ)
	w.b = append(append(w.b, s...), 0)
	for len(w.b)%4 != 0 {
		w.b = append(w.b, 0)
	}
}

func (w *wire) u32(typ uint16, v uint32) {
	w.b = native.AppendUint16(w.b, 8)
	w.b = native.AppendUint16(w.b, typ)
	w.b = binary.BigEndian.AppendUint32(w.b, v)
}

// attrs yields the attributes of b. It stops at the first that makes no sense.
func attrs(b []byte) func(func(uint16, []byte) bool) {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= 4 {
			n := int(native.Uint16(b))
			if n < 4 || n > len(b) {
				return
			}
			if !yield(native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// find returns the first attribute of the type.
func find(b []byte, typ uint16) []byte {
	for t, v := range attrs(b) {
		if t == typ {
			return v
		}
	}
	return nil
}

func text(b []byte) string {
	if n := len(b); n > 0 && b[n-1] == 0 {
		b = b[:n-1]
	}
	return string(b)
}

func number(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

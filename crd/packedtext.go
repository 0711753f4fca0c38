package crd

import (
	"encoding/binary"
	"sync"
	"unsafe"
)

// A packedText is the place of a stored object's text. It never changes: an object that moves gets another one.
type packedText struct {
	in       *textBlock
	from, to uint32 // in the block; what is there is packed unless it is as long as the text
	size     uint32 // of the text
	meta     uint32 // where in the text the metadata's brace is
}

// A textBlock holds texts: one alone, or, after Kind.Compact, many of one kind. It never changes, and lives as long as any
// object whose text it holds.
type textBlock struct {
	data  string
	model uint32     // length of the first text, by which the others are packed
	one   packedText // of a text that lies alone
}

// alone is the place of a text of its own.
func alone(text string, meta uint32) *packedText {
	n := uint32(len(text))
	b := &textBlock{data: text, model: n, one: packedText{to: n, size: n, meta: meta}}
	b.one.in = b
	return &b.one
}

func (p *packedText) plain() bool { return p.to-p.from == p.size }

// bytes returns the text: where it lies, if it is there as it is, or in room, if there is one.
func (p *packedText) bytes(room *[]byte) []byte {
	switch {
	case p.plain():
		text := p.in.data[p.from:p.to]
		return unsafe.Slice(unsafe.StringData(text), len(text))
	case room == nil:
		return p.append(nil)
	}
	*room = p.append((*room)[:0])
	return *room
}

// append appends the text.
func (p *packedText) append(b []byte) []byte {
	if p.plain() {
		return append(b, p.in.data[p.from:p.to]...)
	}
	return unpack(b, p.in.data[p.from:p.to], p.in.data[:p.in.model], int(p.size))
}

// rooms are buffers for texts that are looked at and not kept.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// look calls f with the text, of which f keeps nothing.
func (p *packedText) look(f func(text string)) {
	room := rooms.Get().(*[]byte)
	text := p.bytes(room)
	f(unsafe.String(unsafe.SliceData(text), len(text)))
	rooms.Put(room)
}

// A packed text is a list of differences from a model: a number, so many bytes that stand there, a number, and
// so many bytes of the model, from where a third number says. Numbers are varints; the place in the model is written as the
// distance from where the texts would go on together, as texts of one kind mostly do.

// minShared is the number of bytes from which a reference to them is worth its while.
const minShared = 8

// deltaEncoder finds where a model has what a text has. It is for one goroutine, and used again for other models.
type deltaEncoder struct {
	model string
	at    [1 << 13]uint16 // by hash of eight bytes: one behind where in the model they are; 0: nowhere
}

// maxModel bounds models, as places are counted in 16 bits.
const maxModel = 1 << 15

func (s *deltaEncoder) learn(model string) {
	s.model = model
	clear(s.at[:])
	for i := len(model) - minShared; i >= 0; i-- {
		s.at[hash8(model[i:])] = uint16(i + 1)
	}
}

func hash8(text string) uint64 {
	return word(text) * 0x9e3779b97f4a7c15 >> 51
}

func word(text string) uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice(unsafe.StringData(text), 8))
}

// alike is the number of bytes that are the same at the beginning of both.
func alike(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// find returns what is the same at i as in the model, where the texts went together up to `at`.
func (s *deltaEncoder) find(text string, i, at int) (from, n int) {
	if at < len(s.model) {
		from, n = at, alike(text[i:], s.model[at:])
	}
	if n < 4*minShared && i+minShared <= len(text) {
		if j := int(s.at[hash8(text[i:])]) - 1; j >= 0 && j != at {
			if m := alike(text[i:], s.model[j:]); m > n {
				from, n = j, m
			}
		}
	}
	return from, n
}

// pack appends a text in terms of the model.
func (s *deltaEncoder) pack(b []byte, text string) []byte {
	at := 0 // in the model
	for i := 0; i < len(text); {
		start, next := i, at
		from, n := s.find(text, i, next)
		for n < minShared && i < len(text) {
			i, next = i+1, next+1
			from, n = s.find(text, i, next)
		}
		b = binary.AppendUvarint(b, uint64(i-start))
		b = append(b, text[start:i]...)
		if i == len(text) {
			break
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendVarint(b, int64(from-next))
		i, at = i+n, from+n
	}
	return b
}

// unpack appends the text of that size that was packed.
func unpack(b []byte, packed, model string, size int) []byte {
	if room := cap(b) - len(b); room < size {
		b = append(make([]byte, 0, len(b)+size), b...)
	}
	p, at := unsafe.Slice(unsafe.StringData(packed), len(packed)), 0
	for len(p) > 0 {
		own, k := binary.Uvarint(p)
		p = p[k:]
		b = append(b, p[:own]...)
		if p = p[own:]; len(p) == 0 {
			break
		}
		n, k := binary.Uvarint(p)
		p = p[k:]
		shift, k := binary.Varint(p)
		p = p[k:]
		at += int(own) + int(shift)
		b = append(b, model[at:at+int(n)]...)
		at += int(n)
	}
	return b
}

// Package intern keeps one copy of parts that many objects have alike: string interning, for parts of API objects that never change once
// they are stored. A template's pods differ by name and node; their resources, probes and field owners are the same, and decoded they
// are most of what a pod takes.
package intern

import (
	"sync"
	"unsafe"
)

// most bounds the parts of a generation. What is in use moves on into the next one; the rest is forgotten with its own.
const most = 256

// A Form identifies a part: parts with equal encodings are equal.
type Form interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// A Pool knows the parts that were seen lately, no more than some hundreds of them. The zero value is empty. It is safe for concurrent use.
type Pool struct {
	mu         sync.Mutex
	young, old map[string]any
	text       []byte
}

// Same returns the part with this form that the pool knows, or what made returns, which it knows from now on: nobody may change that any
// more. The form itself is not kept. The letter says what it is a part of, as forms of two types may be encoded alike.
func (p *Pool) Same(letter byte, form Form, made func() any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := form.Size()
	if cap(p.text) < size+1 {
		p.text = make([]byte, size+1, 2*size+1)
	}
	p.text = p.text[:size+1]
	p.text[0] = letter
	if _, err := form.MarshalToSizedBuffer(p.text[1:]); err != nil {
		return made() // it has no form, so it is like no other
	}
	return p.same(made)
}

// Bytes is Same for a form that is encoded.
func (p *Pool) Bytes(letter byte, form []byte, made func() any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(append(p.text[:0], letter), form...)
	return p.same(made)
}

// Text returns the text that is known, or s.
func (p *Pool) Text(letter byte, s string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(append(p.text[:0], letter), s...)
	return p.same(func() any { return s }).(string)
}

// same is Same for the form in p.text. It needs mu.
func (p *Pool) same(made func() any) any {
	if known, ok := p.young[string(p.text)]; ok {
		return known
	}
	known, ok := p.old[string(p.text)]
	if !ok {
		known = made()
	}
	if p.young == nil || len(p.young) >= most {
		p.young, p.old = make(map[string]any, most), p.young
	}
	p.young[string(p.text)] = known
	return known
}

// Identical says that two structs are bit by bit the same: what they refer to is not only equal, but one. Padding may make it say no.
func Identical[T any](a, b *T) bool {
	size := unsafe.Sizeof(*a)
	return string(unsafe.Slice((*byte)(unsafe.Pointer(a)), size)) == string(unsafe.Slice((*byte)(unsafe.Pointer(b)), size))
}

package apply

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A knownSet is a set as it stands in objects, and as it is read.
type knownSet struct {
	fields *metav1.FieldsV1
	read   set // nil: nobody has asked for it
}

// knownSets is a cache that interns field sets: those that were written or read last, each in the place that its text hashes to.
// Objects of one shape have equal sets: they share them, and each is read once.
var knownSets [256]atomic.Pointer[knownSet]

// longestKnown bounds the text of a set that is known.
const longestKnown = 4 << 10

var knownSeed = maphash.MakeSeed()

// known returns the set of that text, or nil, and its place.
func known(text []byte) (*knownSet, *atomic.Pointer[knownSet]) {
	at := &knownSets[maphash.Bytes(knownSeed, text)%uint64(len(knownSets))]
	if k := at.Load(); k != nil && bytes.Equal(k.fields.GetRawBytes(), text) {
		return k, at
	}
	return nil, at
}

// pages are buffers to write field sets in.
var pages = sync.Pool{New: func() any { b := make([]byte, 0, longestKnown); return &b }}

// fieldsOf writes a set. What it returns is shared.
func fieldsOf(s set) *metav1.FieldsV1 {
	page := pages.Get().(*[]byte)
	defer pages.Put(page)
	text := s.appendJSON((*page)[:0])
	*page = text
	k, at := known(text)
	if k != nil {
		return k.fields
	}
	f := &metav1.FieldsV1{}
	f.SetRawBytes(text)
	if len(text) <= longestKnown {
		at.Store(&knownSet{fields: f})
	}
	return f
}

// setOf reads the set of an entry; see parseSet.
func setOf(e *metav1.ManagedFieldsEntry) (s set, ok bool) {
	text := rawFields(e)
	k, at := known(text)
	if k != nil && k.read != nil {
		return k.read, true
	}
	f := e.FieldsV1
	if k != nil {
		f = k.fields
	}
	if s, ok = parseSet(text); ok && len(text) <= longestKnown {
		at.Store(&knownSet{f, s})
	}
	return s, ok
}

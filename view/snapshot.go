package view

import (
	"iter"
	"math"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// A Snapshot is the state of all kinds at one moment. It never changes, costs nothing to keep for a short
// while, and keeps what was deleted since alive for as long as it is held. It implements resource.Reader.
type Snapshot struct {
	rev    int64
	seq    uint64
	slots  map[schema.GroupResource]int
	tables []*frozen
}

var _ resource.Reader = (*Snapshot)(nil)

// Rev returns the revision of the whole state; 0 when the view is fed by kind.
func (s *Snapshot) Rev() int64 { return s.rev }

// Revision implements resource.Reader.
func (s *Snapshot) Revision(k resource.Kind) int64 {
	if f := s.of(k); f != nil {
		return max(s.rev, f.rev)
	}
	return s.rev
}

func (s *Snapshot) of(k resource.Kind) *frozen {
	if i, ok := s.slots[k.Info().GR()]; ok && i < len(s.tables) {
		return s.tables[i]
	}
	return nil
}

// Entry returns the named object's entry, or nil.
func (s *Snapshot) Entry(k resource.Kind, ns, name string) *Entry {
	f := s.of(k)
	if f == nil {
		return nil
	}
	at := probes.Get().(*Entry)
	at.ns, at.name = ns, name
	e, _ := f.objects.Get(at)
	at.ns, at.name = "", ""
	probes.Put(at)
	return e
}

// probes are entries to look for.
var probes = sync.Pool{New: func() any { return new(Entry) }}

// Entry returns the newest entry of the named object, or nil. Those who read one object need no snapshot, which would have the next
// write copy what it changes.
func (v *View) Entry(k resource.Kind, ns, name string) *Entry {
	if s := v.latest.Load(); s != nil {
		return s.Entry(k, ns, name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if i, ok := v.slots[k.Info().GR()]; ok {
		return v.tables[i].get(ns, name)
	}
	return nil
}

// Entries yields the entries of the kind in the namespace ("" means all) in the order of their storage keys.
// It starts behind the key `from`, which is relative to the kind's prefix: "name", or "namespace/name" for
// namespaced kinds, whether it exists or not. "" starts at the first.
func (s *Snapshot) Entries(k resource.Kind, ns, from string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		f := s.of(k)
		if f == nil || f.objects.Len() == 0 {
			return
		}
		start := startOf(k, ns, from)
		f.objects.AscendGreaterOrEqual(start, func(e *Entry) bool {
			if ns != "" && e.ns != ns {
				return false
			}
			if from != "" && e.ns == start.ns && e.name == start.name {
				return true
			}
			return yield(e)
		})
	}
}

// Count returns how many objects of the kind the namespace holds; "" means all. Counting all is free.
func (s *Snapshot) Count(k resource.Kind, ns string) int {
	f := s.of(k)
	switch {
	case f == nil:
		return 0
	case ns == "":
		return f.objects.Len()
	}
	return s.CountTo(k, ns, math.MaxInt)
}

// CountTo counts no further than enough: a namespace is counted by looking at each object.
func (s *Snapshot) CountTo(k resource.Kind, ns string, enough int) int {
	if ns == "" {
		return min(s.Count(k, ""), enough)
	}
	n := 0
	for range s.Entries(k, ns, "") {
		if n == enough {
			break
		}
		n++
	}
	return n
}

// Lookup implements resource.Reader.
func (s *Snapshot) Lookup(k resource.Kind, ns, name string) resource.Object {
	return s.Entry(k, ns, name).Found()
}

// startOf returns the place at which a walk through a namespace begins, behind the key from.
func startOf(k resource.Kind, ns, from string) *Entry {
	if from == "" {
		return &Entry{ns: ns}
	}
	at := &Entry{name: from}
	if k.Info().Namespaced {
		at.ns, at.name, _ = strings.Cut(from, "/")
	}
	if ns != "" && compareNamespaces(at.ns, ns) < 0 {
		return &Entry{ns: ns}
	}
	return at
}

// Each implements resource.Reader. Loops and plugins ask for kinds of which there are none at every change.
func (s *Snapshot) Each(k resource.Kind, ns string) iter.Seq[resource.Object] {
	if f := s.of(k); f == nil || f.objects.Len() == 0 {
		return none
	}
	return func(yield func(resource.Object) bool) {
		for e := range s.Entries(k, ns, "") {
			if !yield(e.Object) {
				return
			}
		}
	}
}

// ByOwner implements resource.Reader. The garbage collector asks every kind about every object that changes, and
// objects of few kinds have owners: the others answer at once.
func (s *Snapshot) ByOwner(k resource.Kind, uid string) iter.Seq[resource.Object] {
	if f := s.of(k); f == nil || f.owned == 0 {
		return none
	}
	return s.find(k, ownerTerm(uid), "")
}

func none(func(resource.Object) bool) {}

// ByField implements resource.Reader.
func (s *Snapshot) ByField(k resource.Kind, label, value string) iter.Seq[resource.Object] {
	resource.MustIndex(k, label)
	return s.find(k, fieldTerm(label, value), "")
}

// ByLabel implements resource.Reader; "" means all namespaces.
func (s *Snapshot) ByLabel(k resource.Kind, ns, label, value string) iter.Seq[resource.Object] {
	return s.find(k, labelTerm(label, value), ns)
}

func (s *Snapshot) find(k resource.Kind, text, ns string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for e := range s.postings(k, text, ns) {
			if !yield(e.Object) {
				return
			}
		}
	}
}

// EntriesByField is ByField for entries.
func (s *Snapshot) EntriesByField(k resource.Kind, label, value string) iter.Seq[*Entry] {
	resource.MustIndex(k, label)
	return s.postings(k, fieldTerm(label, value), "")
}

// EntriesByLabel is ByLabel for entries.
func (s *Snapshot) EntriesByLabel(k resource.Kind, ns, label, value string) iter.Seq[*Entry] {
	return s.postings(k, labelTerm(label, value), ns)
}

func (s *Snapshot) postings(k resource.Kind, text, ns string) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		f := s.of(k)
		if f == nil {
			return
		}
		want := &term{text: text}
		f.index.AscendGreaterOrEqual(posting{want, &Entry{ns: ns}}, func(p posting) bool {
			if p.term.text != text || ns != "" && p.entry.ns != ns {
				return false
			}
			return yield(p.entry)
		})
	}
}

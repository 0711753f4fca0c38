package view

import (
	"strings"

	"github.com/google/btree"

	"github.com/kloop-dev/kloop/resource"
)

// Tree degrees. Every first change of a path after a snapshot copies its nodes, so smaller ones make writes
// cheaper and larger ones reads.
const (
	objectsDegree = 32
	indexDegree   = 16
)

// A table holds the objects of one kind in storage order, and the index by which else they are found. The
// trees are persistent: a frozen table shares their nodes until the next write.
type table struct {
	slot    int
	kind    resource.Kind // nil while only somebody waits for the kind
	rev     int64         // when fed by kind
	objects *btree.BTreeG[*Entry]
	index   *btree.BTreeG[posting]
	terms   map[string]*term
	owned   int     // owner references in the index
	last    *frozen // what the last snapshot holds
	moved   bool    // last is out of date
	changed bool    // the trees are
	grown   int     // entries that came since all were compacted

	probe   Entry // what is looked for; guarded by mu
	log     log
	wake    chan struct{}        // closed at the next change; nil when nobody waits
	cursors map[*Cursor]struct{} // of several kinds, to be woken at the next change
	woken   bool                 // is on the list of those whose waiters are to be woken
}

// A term is one way to find objects, shared by all that it finds.
type term struct {
	text string
	refs int // postings; guarded by View.mu
}

// owner says that the term finds what an object owns.
func (x *term) owner() bool { return x.text[0] == ownerLetter }

type posting struct {
	term  *term
	entry *Entry
}

func lessEntry(a, b *Entry) bool { return compareEntries(a, b) < 0 }

func lessPosting(a, b posting) bool {
	if a.term != b.term {
		if c := strings.Compare(a.term.text, b.term.text); c != 0 {
			return c < 0
		}
	}
	return compareEntries(a.entry, b.entry) < 0
}

func newTable(k resource.Kind, slot int) *table {
	return &table{kind: k, slot: slot, terms: map[string]*term{},
		objects: btree.NewG(objectsDegree, lessEntry), index: btree.NewG(indexDegree, lessPosting)}
}

// frozen is a table at a moment. It never changes.
type frozen struct {
	rev     int64
	objects *btree.BTreeG[*Entry]
	index   *btree.BTreeG[posting]
	owned   int
}

// freeze returns the table as it is now, the last one when nothing changed.
func (t *table) freeze() *frozen {
	f := &frozen{rev: t.rev, owned: t.owned}
	if t.last != nil && !t.changed {
		f.objects, f.index = t.last.objects, t.last.index
	} else {
		f.objects, f.index = t.objects.Clone(), t.index.Clone()
	}
	t.last, t.moved, t.changed = f, false, false
	return f
}

func (t *table) get(ns, name string) *Entry {
	e, _ := t.objects.Get(t.at(ns, name))
	return e
}

// at is an entry to look for, until the next call.
func (t *table) at(ns, name string) *Entry {
	t.probe.ns, t.probe.name = ns, name
	return &t.probe
}

// put stores e and returns what it replaced.
func (t *table) put(e *Entry) *Entry {
	old, had := t.objects.ReplaceOrInsert(e)
	switch {
	case had && sameTerms(t.kind, old.Object, e.Object):
		e.terms = old.terms
	default:
		e.terms = t.intern(textsOf(t.kind, e.Object))
		t.unindex(old)
	}
	for _, term := range e.terms {
		t.index.ReplaceOrInsert(posting{term, e})
	}
	t.moved, t.changed = true, true
	return old
}

// remove returns what it removed, or nil.
func (t *table) remove(ns, name string) *Entry {
	old, had := t.objects.Delete(t.at(ns, name))
	if had {
		t.unindex(old)
		t.moved, t.changed = true, true
	}
	return old
}

func (t *table) intern(texts []string) []*term {
	terms := make([]*term, len(texts))
	for i, text := range texts {
		x := t.terms[text]
		if x == nil {
			x = &term{text: text}
			t.terms[text] = x
		}
		x.refs++
		if x.owner() {
			t.owned++
		}
		terms[i] = x
	}
	return terms
}

func (t *table) unindex(e *Entry) {
	if e == nil {
		return
	}
	for _, term := range e.terms {
		t.index.Delete(posting{term, e})
		if term.owner() {
			t.owned--
		}
		if term.refs--; term.refs == 0 {
			delete(t.terms, term.text)
		}
	}
}

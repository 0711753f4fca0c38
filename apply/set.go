package apply

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// A set is a set of field paths as a tree, in the order in which upstream writes it. Sets are never changed
// once they are made, so they share their parts.
type set []item

// An item is one step of paths.
type item struct {
	step   step
	marked bits // what ends here
	sub    set
}

// bits say what a path is a member of. A plain set uses only the first; a difference has three.
type bits uint8

const (
	member  bits = 1 << iota // of the set; or: it is new
	changed                  // in both objects, with another value
	removed
	changes = member | changed
)

// A step is one path element. The text is as it stands in FieldsV1, without quotes but with escapes: f:name,
// k:{\"name\":\"c\"} or v:\"x\".
type step struct {
	text string
	keys []key // of k: and v:, for the order
}

// A key is one field of a list item that identifies it, or the item itself.
type key struct {
	name string
	val  scalar
}

// A scalar is a value of a key. Numbers order before strings, strings before booleans.
type scalar struct {
	kind scalarKind
	n    int64
	s    string
}

type scalarKind uint8

const (
	number scalarKind = iota
	str
	boolean
)

func (a scalar) compare(b scalar) int {
	if c := cmp.Compare(a.kind, b.kind); c != 0 {
		return c
	}
	if a.kind == str {
		return strings.Compare(a.s, b.s)
	}
	return cmp.Compare(a.n, b.n)
}

func compareKeys(a, b []key) int {
	for i := range min(len(a), len(b)) {
		if c := strings.Compare(a[i].name, b[i].name); c != 0 {
			return c
		}
		if c := a[i].val.compare(b[i].val); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func (s *step) compare(o *step) int {
	if s.text[0] != o.text[0] { // f before k before v is the order of the alphabet too
		return cmp.Compare(s.text[0], o.text[0])
	}
	if s.text[0] == 'f' {
		return strings.Compare(s.text, o.text)
	}
	return compareKeys(s.keys, o.keys)
}

// minus returns s without the members that d marks with any of the bits. When nothing is taken away the result
// is s itself and same is true.
func (s set) minus(d set, with bits) (out set, same bool) {
	copied := false
	i, j := 0, 0
	for i < len(s) {
		c := -1
		if j < len(d) {
			c = s[i].step.compare(&d[j].step)
		}
		if c > 0 {
			j++
			continue
		}
		it, keep := s[i], true
		if c == 0 {
			sub, subSame := it.sub.minus(d[j].sub, with)
			hit := it.marked != 0 && d[j].marked&with != 0
			if hit || !subSame {
				if !copied {
					out, copied = append(make(set, 0, len(s)), s[:i]...), true
				}
				it.sub = sub
				if hit {
					it.marked = 0
				}
				keep = it.marked != 0 || len(it.sub) > 0
			}
			j++
		}
		if copied && keep {
			out = append(out, it)
		}
		i++
	}
	if !copied {
		return s, true
	}
	return out, false
}

// union returns the members of both.
func (s set) union(o set) set {
	if len(s) == 0 {
		return o
	}
	if len(o) == 0 {
		return s
	}
	out := make(set, 0, len(s)+len(o))
	i, j := 0, 0
	for i < len(s) && j < len(o) {
		switch c := s[i].step.compare(&o[j].step); {
		case c < 0:
			out = append(out, s[i])
			i++
		case c > 0:
			out = append(out, o[j])
			j++
		default:
			out = append(out, item{s[i].step, s[i].marked | o[j].marked, s[i].sub.union(o[j].sub)})
			i++
			j++
		}
	}
	return append(append(out, s[i:]...), o[j:]...)
}

// holds says whether anything is marked with a bit.
func (s set) holds(bit bits) bool {
	for i := range s {
		if s[i].marked&bit != 0 || s[i].sub.holds(bit) {
			return true
		}
	}
	return false
}

// only returns what d marks with any of the bits, as a plain set.
func (s set) only(with bits) set {
	plain := true
	for i := range s {
		if s[i].marked&^member != 0 || len(s[i].sub) > 0 {
			plain = false
			break
		}
	}
	if plain && with&member != 0 {
		return s
	}
	out := make(set, 0, len(s))
	for i := range s {
		sub := s[i].sub.only(with)
		if s[i].marked&with != 0 {
			out = append(out, item{s[i].step, member, sub})
		} else if len(sub) > 0 {
			out = append(out, item{s[i].step, 0, sub})
		}
	}
	return out
}

// without drops a path with all below it.
func (s set) without(path []string) set {
	for i := range s {
		if s[i].step.text != path[0] {
			continue
		}
		out := append(make(set, 0, len(s)), s[:i]...)
		if len(path) > 1 {
			it := s[i]
			it.sub = it.sub.without(path[1:])
			if it.marked != 0 || len(it.sub) > 0 {
				out = append(out, it)
			}
		}
		return append(out, s[i+1:]...)
	}
	return s
}

// withoutResets drops what the write can't own.
func (s set) withoutResets(w *Write) set {
	for _, p := range resetPaths(w.Kind.Info(), w.Sub) {
		s = s.without(resetSteps(p))
	}
	return s
}

// appendJSON writes the set as FieldsV1.
func (s set) appendJSON(b []byte) []byte {
	b = append(b, '{')
	return append(s.appendItems(b), '}')
}

// isText says whether text is the set as FieldsV1.
func (s set) isText(text []byte) bool {
	page := pages.Get().(*[]byte)
	defer pages.Put(page)
	*page = s.appendJSON((*page)[:0])
	return bytes.Equal(*page, text)
}

func (s set) appendItems(b []byte) []byte {
	for i := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), s[i].step.text...), '"', ':', '{')
		if len(s[i].sub) > 0 {
			if s[i].marked != 0 {
				b = append(b, `".":{},`...)
			}
			b = s[i].sub.appendItems(b)
		}
		b = append(b, '}')
	}
	return b
}

// keyText writes a step to a list item, named by its value or its keys.
func keyText(value bool, keys []key) string {
	room := [128]byte{}
	b := room[:0]
	if value {
		return string(keys[0].val.append(append(b, "v:"...)))
	}
	for i, k := range keys {
		if i == 0 {
			b = append(b, "k:{"...)
		} else {
			b = append(b, ',')
		}
		b = append(append(append(b, `\"`...), k.name...), `\":`...)
		b = k.val.append(b)
	}
	return string(append(b, '}'))
}

func (s scalar) append(b []byte) []byte {
	switch s.kind {
	case str:
		return append(append(append(b, `\"`...), s.s...), `\"`...)
	case number:
		return strconv.AppendInt(b, s.n, 10)
	}
	return strconv.AppendBool(b, s.n != 0)
}

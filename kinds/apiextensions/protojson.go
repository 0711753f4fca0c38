package apiextensions

import (
	"encoding/json"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kloop-dev/kloop/resource/codec"
)

// A protoJSON is JSON made of protobuf as it is read, equal to what encoding/json makes of the objects. It goes by the
// order in which upstream's code writes: the fields in that of their numbers, maps in that of their keys.
type protoJSON struct {
	text    []byte
	strange bool // there was what it does not know how to write
}

// message writes a message as an object.
func (w *protoJSON) message(l *fieldLayout, data []byte) {
	w.text = append(w.text, '{')
	start, last, open, must := len(w.text), protowire.Number(0), byte(0), 0
	key := ""
	for len(data) > 0 && !w.strange {
		n, typ, tag := protowire.ConsumeTag(data)
		size := protowire.ConsumeFieldValue(n, typ, data[max(tag, 0):])
		if tag < 0 || size < 0 || n < last {
			w.strange = true
			return
		}
		value := data[tag : tag+size]
		data = data[tag+size:]
		f := l.field(n)
		if f == nil || f.wire != typ {
			w.strange = true
			return
		}
		if n != last {
			if open != 0 {
				w.text = append(w.text, open)
			}
			last, open, key = n, 0, ""
			if f.must {
				must++
			}
			if f.omit && (typ == protowire.BytesType && len(value) == 1 || typ == protowire.VarintType && value[0] == 0) {
				continue
			}
			if len(w.text) > start {
				w.text = append(w.text, ',')
			}
			w.text = append(append(append(w.text, '"'), f.name...), `":`...)
			if open = f.close; f.open != 0 {
				w.text = append(w.text, f.open)
			}
		} else if open == 0 {
			w.strange = true
		} else {
			w.text = append(w.text, ',')
		}
		if f.close == '}' {
			key = w.entry(f, value, key)
		} else {
			w.value(f, value)
		}
	}
	if open != 0 {
		w.text = append(w.text, open)
	}
	w.strange = w.strange || must != l.must
	w.text = append(w.text, '}')
}

// entry writes an entry of a map, which comes after the one of the key before.
func (w *protoJSON) entry(f *messageField, data []byte, before string) string {
	content, _ := protowire.ConsumeBytes(data)
	name, value := string(fieldOf(content, 1)), fieldOf(content, 2)
	w.strange = w.strange || name <= before && before != "" || value == nil
	w.string(name)
	w.text = append(w.text, ':')
	w.bytes(f, value)
	return name
}

// value writes what follows a tag.
func (w *protoJSON) value(f *messageField, data []byte) {
	switch f.shape {
	case number:
		v, _ := protowire.ConsumeVarint(data)
		w.text = strconv.AppendInt(w.text, int64(v), 10)
	case flag:
		v, _ := protowire.ConsumeVarint(data)
		w.text = strconv.AppendBool(w.text, v != 0)
	case float:
		v, _ := protowire.ConsumeFixed64(data)
		w.other(math.Float64frombits(v))
	default:
		content, _ := protowire.ConsumeBytes(data)
		w.bytes(f, content)
	}
}

// bytes writes what has a length.
func (w *protoJSON) bytes(f *messageField, data []byte) {
	schema := func() { w.message(f.of, fieldOf(data, f.schemaAt)) }
	switch f.shape {
	case words:
		w.string(string(data))
	case message:
		w.message(f.of, data)
	case raw:
		if doc := fieldOf(data, 1); len(doc) > 0 {
			w.other(json.RawMessage(doc))
			return
		}
		w.text = append(w.text, "null"...)
	case schemaOrFlag:
		if fieldOf(data, f.schemaAt) != nil {
			schema()
			return
		}
		allows := len(data) > 1 && data[0] == 1<<3 && data[1] == 1
		w.text = strconv.AppendBool(w.text, allows)
	case schemaOrList:
		if fieldOf(data, 2) != nil { // a list, which is seldom: upstream allows none
			w.strange = true
		} else if fieldOf(data, f.schemaAt) != nil {
			schema()
		} else {
			w.text = append(w.text, "null"...)
		}
	default:
		w.strange = true
	}
}

func (w *protoJSON) string(s string) {
	out, err := codec.AppendString(w.text, s)
	if err != nil {
		w.strange = true
		return
	}
	w.text = out
}

func (w *protoJSON) other(v any) {
	doc, err := json.Marshal(v)
	w.strange = w.strange || err != nil
	w.text = append(w.text, doc...)
}

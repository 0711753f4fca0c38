package openapi

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
)

// A form is the encoding of a v2 document.
type form struct {
	name string
	// inner writes what stands in the Paths or the Definitions of the document.
	inner func(of string, what object) ([]byte, error)
	// frame puts a document together.
	frame func(head object, paths, defs [][]byte) ([][]byte, error)
}

var (
	formJSON  = form{"json", innerJSON, frameJSON}
	formProto = form{"proto", innerProto, frameProto}
)

// innerJSON is an object without its braces.
func innerJSON(_ string, what object) ([]byte, error) {
	raw, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(raw[1 : len(raw)-1]), nil
}

func frameJSON(head object, paths, defs [][]byte) ([][]byte, error) {
	raw, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	out := [][]byte{raw[:len(raw)-1]}
	for _, list := range []struct {
		name  string
		parts [][]byte
	}{{"definitions", defs}, {"paths", paths}} {
		out = append(out, []byte(`,"`+list.name+`":{`))
		for i, p := range list.parts {
			if i > 0 {
				out = append(out, comma)
			}
			out = append(out, p)
		}
		out = append(out, closing)
	}
	return append(out, closing), nil
}

var comma, closing = []byte(","), []byte("}")

func innerProto(of string, what object) ([]byte, error) {
	plain, err := asRead(what)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(encoder{v2Messages}.message(nil, plain, of)), nil
}

func frameProto(head object, paths, defs [][]byte) ([][]byte, error) {
	raw, err := encode(head, v2Messages, "Document")
	out := [][]byte{raw}
	for _, list := range []struct {
		field string
		parts [][]byte
	}{{"paths", paths}, {"definitions", defs}} {
		size := 0
		for _, p := range list.parts {
			size += len(p)
		}
		tag := protowire.AppendTag(nil, v2Messages["Document"].fields[list.field].n, protowire.BytesType)
		out = append(out, protowire.AppendVarint(tag, uint64(size)))
		out = append(out, list.parts...)
	}
	return out, err
}

package plan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A page is one answer to a list.
type page struct {
	objects []resource.Object
	next    string // where the next page begins; "": this was the last
}

// openPage decodes an answer in either form. The bytes may be overwritten afterwards.
func openPage(k resource.Kind, gvk schema.GroupVersionKind, data []byte) (page, error) {
	if !bytes.HasPrefix(data, []byte("k8s\x00")) {
		return openJSON(k, gvk, data)
	}
	_, raw, err := codec.OpenEnvelope(data)
	if err != nil {
		return page{}, err
	}
	return openProto(k, gvk, raw)
}

func openJSON(k resource.Kind, gvk schema.GroupVersionKind, data []byte) (p page, err error) {
	var list struct {
		Metadata struct {
			Continue string `json:"continue"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return page{}, err
	}
	p.next = list.Metadata.Continue
	for _, raw := range list.Items {
		obj := k.New(gvk)
		if _, err := codec.UnmarshalJSON(raw, obj); err != nil {
			return page{}, err
		}
		clear(raw)
		p.objects = append(p.objects, obj)
	}
	return p, nil
}

var errCutOff = errors.New("the answer is cut off, or no list")

// openProto walks the message that all lists of Kubernetes share: metadata in field 1, items in field 2. In the metadata field 3 is
// the token for the next page.
func openProto(k resource.Kind, gvk schema.GroupVersionKind, data []byte) (p page, err error) {
	err = fields(data, func(n uint64, value []byte) error {
		switch n {
		case 1:
			return fields(value, func(n uint64, value []byte) error {
				if n == 3 {
					p.next = string(value)
				}
				return nil
			})
		case 2:
			obj := k.New(gvk)
			m, ok := obj.(interface{ Unmarshal(data []byte) error })
			if !ok {
				return fmt.Errorf("%s has no protobuf form", gvk.Kind)
			}
			p.objects = append(p.objects, obj)
			return m.Unmarshal(value)
		}
		return nil
	})
	return p, err
}

// fields yields the length-delimited fields of a protobuf message and skips numbers.
func fields(data []byte, f func(n uint64, value []byte) error) error {
	for len(data) > 0 {
		tag, size := binary.Uvarint(data)
		if size <= 0 {
			return errCutOff
		}
		data = data[size:]
		length, size := binary.Uvarint(data)
		if size <= 0 {
			return errCutOff
		}
		data = data[size:]
		switch tag & 7 {
		case 0: // the number was the value
		case 2:
			if length > uint64(len(data)) {
				return errCutOff
			}
			if err := f(tag>>3, data[:length]); err != nil {
				return err
			}
			data = data[length:]
		default:
			return errCutOff
		}
	}
	return nil
}

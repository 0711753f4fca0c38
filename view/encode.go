package view

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource/codec"
)

// The encodings of an entry: those of the hub version have slots of their own; the other versions share one
// per format, which holds the one asked for last.
const (
	hubJSON = iota
	hubProto
	otherJSON
	otherProto
	slots
)

type encodings struct {
	budget *budget // nil: nothing is kept
	slots  [slots]slot
}

type slot = atomic.Pointer[encoded]

// encoded is one encoding of an object.
type encoded struct {
	gvk  schema.GroupVersionKind
	data []byte
	rest int         // JSON: where the text goes on behind apiVersion and kind; 0: it does not start with them
	read atomic.Bool // since the sweep came by

	home       *slot // guarded by budget.mu, as are the next two
	prev, next *encoded
}

// JSON returns the object as JSON in the given served version, with kind and apiVersion. The bytes are shared.
func (e *Entry) JSON(ctx context.Context, gvk schema.GroupVersionKind) ([]byte, error) {
	return e.JSONIn(ctx, gvk, nil)
}

// JSONIn is JSON for a caller that is done with the bytes when the next are asked for: those that the entry does not keep are made
// in room, which grows; nil for none.
func (e *Entry) JSONIn(ctx context.Context, gvk schema.GroupVersionKind, room *[]byte) ([]byte, error) {
	if doc := e.ready(gvk, room); doc != nil {
		return doc, nil
	}
	x, err := e.encoding(ctx, gvk, hubJSON)
	if err != nil {
		return nil, err
	}
	return x.data, nil
}

// ItemJSON returns the object as an item of a list: without kind and apiVersion, except for custom resources,
// which carry them there as well. It comes in two parts, open and rest, so that it shares the bytes of JSON.
func (e *Entry) ItemJSON(ctx context.Context, gvk schema.GroupVersionKind) (open, rest []byte, err error) {
	if doc := e.ready(gvk, nil); doc != nil {
		return nil, doc, nil
	}
	x, err := e.encoding(ctx, gvk, hubJSON)
	if err != nil {
		return nil, nil, err
	}
	if x.rest == 0 || e.Kind.Info().Custom {
		return nil, x.data, nil
	}
	return x.data[:1], x.data[x.rest:], nil
}

// ready returns the object's JSON if the object is kept as JSON, else nil.
func (e *Entry) ready(gvk schema.GroupVersionKind, room *[]byte) []byte {
	if doc, ok := e.Object.(codec.Encoded); ok && gvk == e.Object.GetObjectKind().GroupVersionKind() {
		return doc.EncodedJSON(room)
	}
	return nil
}

// RawProto returns the bare protobuf message in the given served version; codec.ErrNoProtobuf for kinds that
// have none. The bytes are shared.
func (e *Entry) RawProto(ctx context.Context, gvk schema.GroupVersionKind) ([]byte, error) {
	x, err := e.encoding(ctx, gvk, hubProto)
	if err != nil {
		return nil, err
	}
	return x.data, nil
}

// KeptProto is RawProto if the message is at hand already; it makes none.
func (e *Entry) KeptProto(gvk schema.GroupVersionKind) ([]byte, bool) {
	at := &e.enc.slots[hubProto]
	if gvk != e.Kind.Info().GVK {
		at = &e.enc.slots[hubProto+otherJSON]
	}
	if kept := at.Load(); kept != nil && kept.gvk == gvk {
		return kept.data, true
	}
	return nil, false
}

func (e *Entry) encoding(ctx context.Context, gvk schema.GroupVersionKind, format int) (*encoded, error) {
	at := &e.enc.slots[format]
	if gvk != e.Kind.Info().GVK {
		at = &e.enc.slots[format+otherJSON]
	}
	kept := at.Load()
	if kept != nil && kept.gvk == gvk {
		if !kept.read.Load() {
			kept.read.Store(true)
		}
		return kept, nil
	}
	x, err := e.encode(ctx, gvk, format)
	if err == nil && e.enc.budget != nil && at.CompareAndSwap(kept, x) {
		e.enc.budget.add(x, at, kept)
	}
	return x, err
}

func (e *Entry) encode(ctx context.Context, gvk schema.GroupVersionKind, format int) (*encoded, error) {
	obj, err := e.Object, error(nil)
	if _, quick := obj.(codec.Maker); !quick || format == hubProto || gvk != obj.GetObjectKind().GroupVersionKind() {
		if obj, err = e.Kind.ConvertTo(ctx, obj, gvk); err != nil {
			return nil, fmt.Errorf("encode %s %s/%s: %w", e.Kind.Info().GR(), e.ns, e.name, err)
		}
	}
	x := &encoded{gvk: gvk}
	if format == hubProto {
		x.data, err = codec.RawProto(obj)
		return x, err
	}
	if x.data, err = codec.MarshalJSON(obj); err != nil {
		return nil, err
	}
	if cap(x.data) > len(x.data)+len(x.data)/4 { // the allocator rounds up by a fifth: a copy of less waste is as large
		x.data = slices.Clip(bytes.Clone(x.data))
	}
	version, kind := gvk.ToAPIVersionAndKind()
	head := `{"kind":"` + kind + `","apiVersion":"` + version + `",`
	if bytes.HasPrefix(x.data, []byte(head)) {
		x.rest = len(head)
	}
	return x, nil
}

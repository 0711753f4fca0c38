package codec

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var magic = []byte("k8s\x00")

// tail ends every envelope: a content encoding and a content type, both empty.
var tail = []byte{0x1a, 0, 0x22, 0}

// Around returns what goes before and after a bare protobuf message of the given size. Neither may be changed.
func Around(gvk schema.GroupVersionKind, size int) (before, after []byte) {
	return appendHead(nil, gvk, size, 0), tail
}

// appendHead appends what goes before a message of a size, with room for the message and more.
func appendHead(b []byte, gvk schema.GroupVersionKind, size, more int) []byte {
	version, kind := gvk.ToAPIVersionAndKind()
	typ := 2 + protowire.SizeBytes(len(version)) + protowire.SizeBytes(len(kind))
	b = slices.Grow(b, len(magic)+1+protowire.SizeBytes(typ)+1+protowire.SizeVarint(uint64(size))+more)
	b = append(append(b, magic...), 0x0a)
	b = protowire.AppendVarint(b, uint64(typ))
	b = protowire.AppendString(append(b, 0x0a), version)
	b = protowire.AppendString(append(b, 0x12), kind)
	return protowire.AppendVarint(append(b, 0x12), uint64(size))
}

// Envelope wraps a bare message: magic, type and bytes.
func Envelope(gvk schema.GroupVersionKind, raw []byte) []byte {
	b := appendHead(nil, gvk, len(raw), len(raw)+len(tail))
	return append(append(b, raw...), tail...)
}

// appendEnvelope appends an object as an enveloped message, which is written into its place at once.
func appendEnvelope(b []byte, gvk schema.GroupVersionKind, obj any) ([]byte, error) {
	p, ok := obj.(Proto)
	if !ok {
		return nil, fmt.Errorf("encode %T: %w", obj, ErrNoProtobuf)
	}
	size := p.Size()
	b = appendHead(b, gvk, size, size+len(tail))
	n, err := p.MarshalTo(b[len(b) : len(b)+size])
	if err == nil && n != size {
		err = fmt.Errorf("encode %T: %d bytes where %d were announced", obj, n, size)
	}
	return append(b[:len(b)+n], tail...), err
}

// OpenEnvelope takes an enveloped message apart.
func OpenEnvelope(data []byte) (gvk schema.GroupVersionKind, raw []byte, err error) {
	var u runtime.Unknown
	body, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return gvk, nil, errors.New("decode protobuf: the body does not start with the k8s prefix")
	}
	if len(body) == 0 {
		return gvk, nil, errors.New("decode protobuf envelope: it is empty")
	}
	if err := u.Unmarshal(body); err != nil {
		return gvk, nil, fmt.Errorf("decode protobuf envelope: %w", err)
	}
	if u.ContentType != "" && u.ContentType != Protobuf {
		return gvk, nil, fmt.Errorf("decode protobuf envelope: content type %q is not supported", u.ContentType)
	}
	return schema.FromAPIVersionAndKind(u.APIVersion, u.Kind), u.Raw, nil
}

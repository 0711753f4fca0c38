package httpapi

import (
	"context"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/view"
)

// largeList is the size in bytes, as stored, from which a list is encoded while it is sent, so that no more of it is in
// memory at a time than what the view keeps anyway.
const largeList = 4 << 20

// large tells whether the whole of a list is too much to hold for every client that asks for it.
func large(l *server.List) bool {
	n := 0
	for _, e := range l.Entries {
		if n += e.Stored(); n > largeList {
			return true
		}
	}
	return false
}

// gather returns the parts that produce emits.
func gather(room int, produce func(reply.Emit) error) ([][]byte, error) {
	parts := make([][]byte, 0, room)
	err := produce(func(p ...[]byte) error {
		parts = append(parts, p...)
		return nil
	})
	return parts, err
}

// flows says that sendJSON sends a list while it is made.
func (p *responder) flows(l *server.List) bool {
	return !p.acc.Pretty && p.acc.Format != reply.YAML && large(l)
}

// room is the buffer in which items of a streamed list may be made one after the other; nil when all are needed at once.
func (p *responder) room(l *server.List) *[]byte {
	if p.flows(l) {
		return new([]byte)
	}
	return nil
}

// sendJSON answers with the JSON document that produce makes of a list.
func (p *responder) sendJSON(l *server.List, produce func(reply.Emit) error) error {
	if p.flows(l) {
		p.send.Stream(p.w, p.r, codec.JSON, -1, func(e reply.Emit) error {
			if err := produce(e); err != nil {
				return err
			}
			return e(reply.Newline)
		})
		return nil
	}
	parts, err := gather(2*len(l.Entries)+2, produce)
	if err != nil {
		return err
	}
	p.joined(parts)
	return nil
}

// sizeOf is the length of an entry's bare message.
func (p *responder) sizeOf(ctx context.Context, e *view.Entry) (int, error) {
	if raw, ok := e.KeptProto(p.gvk); ok {
		return len(raw), nil
	}
	obj, err := e.Kind.ConvertTo(ctx, e.Object, p.gvk)
	if err != nil {
		return 0, err
	}
	if p, ok := obj.(codec.Proto); ok {
		return p.Size(), nil
	}
	raw, err := e.RawProto(ctx, p.gvk)
	return len(raw), err
}

// streamProto sends a large list message. Its lengths stand before what they are of, so items are measured first and
// encoded when their turn comes.
func (p *responder) streamProto(l *server.List, head []byte) error {
	ctx := p.r.Context()
	sizes := make([]int, len(l.Entries))
	size := len(head)
	for i, e := range l.Entries {
		if err := p.gone(i); err != nil {
			return err
		}
		n, err := p.sizeOf(ctx, e)
		if err != nil {
			return err
		}
		sizes[i] = n
		size += 1 + protowire.SizeVarint(uint64(n)) + n
	}
	before, after := codec.Around(p.listGVK(), size)
	p.send.Stream(p.w, p.r, codec.Protobuf, len(before)+size+len(after), func(out reply.Emit) error {
		if err := out(before, head); err != nil {
			return err
		}
		lead := make([]byte, 0, 16)
		for i, e := range l.Entries {
			item, err := e.RawProto(ctx, p.gvk)
			if err != nil {
				return err
			}
			if len(item) != sizes[i] { // can't be: objects do not change
				return io.ErrShortWrite
			}
			if err := out(protowire.AppendVarint(append(lead[:0], 0x12), uint64(len(item))), item); err != nil {
				return err
			}
		}
		return out(after)
	})
	return nil
}

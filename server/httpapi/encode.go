package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/view"
)

// entry answers with one object, from the encoding that the entry keeps.
func (c *call) entry(code int, e *view.Entry) error {
	ctx := c.r.Context()
	if c.w.audit.WantsAnswer() {
		if obj, err := e.Kind.ConvertTo(ctx, e.Object, c.out); err == nil {
			c.w.audit.Answer(obj)
		}
	}
	switch {
	case c.acc.As != "":
		obj, err := e.Kind.ConvertTo(ctx, e.Object, c.out)
		if err != nil {
			return err
		}
		return c.shaped(code, e.Kind, obj)
	case c.acc.Format == reply.Proto:
		raw, err := e.RawProto(ctx, c.out)
		if err != nil {
			return err
		}
		head, tail := reply.Envelope(c.out, len(raw))
		c.send.Write(c.w, c.r, code, codec.Protobuf, head, raw, tail)
		return nil
	}
	doc, err := e.JSON(ctx, c.out)
	if err != nil {
		return err
	}
	c.send.Document(c.w, c.r, c.acc, code, doc)
	return nil
}

// entries answers with a list.
func (c *call) entries(l *server.List) error {
	l, err := c.inVersion(l)
	if err != nil {
		return err
	}
	c.auditList(l)
	switch {
	case c.acc.As != "":
		return c.shapedList(l)
	case c.acc.Format == reply.Proto:
		return c.protoList(l)
	}
	return c.jsonList(l)
}

func (l listOf) meta() metav1.ListMeta {
	m := metav1.ListMeta{Continue: l.Continue, RemainingItemCount: l.Remaining}
	if l.Revision != 0 {
		m.ResourceVersion = strconv.FormatInt(l.Revision, 10)
	}
	return m
}

type listOf struct{ *server.List }

func (c *call) listGVK() schema.GroupVersionKind {
	return c.gvk.GroupVersion().WithKind(c.facts.ListKind)
}

// jsonList strings the items' encodings together. Those of built-in kinds lose their apiVersion and kind, which
// the list implies; custom resources keep them, as upstream has it.
func (c *call) jsonList(l *server.List) error {
	head, err := c.listHead(l)
	if err != nil {
		return err
	}
	cut := []byte(`{"kind":"` + c.gvk.Kind + `","apiVersion":"` + c.gvk.GroupVersion().String() + `",`)
	open, between := []byte("{"), []byte(",")
	openNext := []byte(",{")
	room := c.room(l)
	return c.sendJSON(l, func(out reply.Emit) error {
		if err := out(head); err != nil {
			return err
		}
		for i, e := range l.Entries {
			doc, err := e.JSONIn(c.r.Context(), c.gvk, room)
			if err != nil {
				return err
			}
			rest, bare := doc, false
			if !c.facts.Custom {
				rest, bare = bytes.CutPrefix(doc, cut)
			}
			switch {
			case bare && i == 0:
				err = out(open, rest)
			case bare:
				err = out(openNext, rest)
			case i > 0:
				err = out(between, rest)
			default:
				err = out(rest)
			}
			if err != nil {
				return err
			}
		}
		return out([]byte("]}"))
	})
}

// listHead is the list up to its first item.
func (c *call) listHead(l *server.List) ([]byte, error) {
	meta, err := codec.MarshalJSON(listOf{l}.meta())
	if err != nil {
		return nil, err
	}
	if c.facts.Custom && l.Continue == "" { // upstream lists them in another way, which says so
		meta = append([]byte(`{"continue":"",`), meta[1:]...)
		meta = bytes.Replace(meta, []byte(",}"), []byte("}"), 1) // there was nothing else
	}
	gvk := c.listGVK()
	head := `{"kind":"` + gvk.Kind + `","apiVersion":"` + gvk.GroupVersion().String() + `","metadata":`
	return append(append([]byte(head), meta...), `,"items":[`...), nil
}

func (c *call) protoList(l *server.List) error {
	return c.protoItems(l, c.listGVK(), func(ctx context.Context, e *view.Entry) ([]byte, error) { return e.RawProto(ctx, c.gvk) })
}

// protoItems assembles a list message by hand: every list type has its metadata in field 1 and the items in field 2.
func (c *call) protoItems(l *server.List, gvk schema.GroupVersionKind, encode func(context.Context, *view.Entry) ([]byte, error)) error {
	meta := listOf{l}.meta()
	raw, err := meta.Marshal()
	if err != nil {
		return err
	}
	first := reply.AppendVarint([]byte{0x0a}, len(raw))
	first = append(first, raw...)
	if big := large(l); big && gvk == c.listGVK() {
		return c.streamProto(l, first)
	} else if big { // parts of items must not keep the whole of them
		whole := encode
		encode = func(ctx context.Context, e *view.Entry) ([]byte, error) {
			b, err := whole(ctx, e)
			return bytes.Clone(b), err
		}
	}
	size := len(first)
	parts := make([][]byte, 2, 2*len(l.Entries)+3)
	parts[1] = first
	tags := make([]byte, 0, 6*len(l.Entries))
	for _, e := range l.Entries {
		item, err := encode(c.r.Context(), e)
		if err != nil {
			return err
		}
		from := len(tags)
		tags = reply.AppendVarint(append(tags, 0x12), len(item))
		size += len(tags) - from + len(item)
		parts = append(parts, tags[from:len(tags):len(tags)], item)
	}
	head, tail := reply.Envelope(gvk, size)
	parts[0] = head
	c.send.Write(c.w, c.r, http.StatusOK, codec.Protobuf, append(parts, tail)...)
	return nil
}

package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/view"
)

// entry answers with one object, from the encoding that the entry keeps.
func (p *responder) entry(code int, e *view.Entry) error {
	ctx := p.r.Context()
	if p.w.audit.WantsAnswer() {
		if obj, err := e.Kind.ConvertTo(ctx, e.Object, p.out); err == nil {
			p.w.audit.Answer(obj)
		}
	}
	switch {
	case p.acc.As != "":
		obj, err := e.Kind.ConvertTo(ctx, e.Object, p.out)
		if err != nil {
			return err
		}
		k := e.Kind
		if k.Info().GR() == p.facts.GR() { // as the version that was asked for, which may have columns of its own
			k = p.kind
		}
		return p.shaped(code, k, obj, e.Object)
	case p.acc.Format == reply.Proto:
		raw, err := e.RawProto(ctx, p.out)
		if err != nil {
			return err
		}
		head, tail := codec.Around(p.out, len(raw))
		p.send.Write(p.w, p.r, code, codec.Protobuf, head, raw, tail)
		return nil
	}
	doc, err := e.JSON(ctx, p.out)
	if err != nil {
		return err
	}
	p.send.Document(p.w, p.r, p.acc, code, doc)
	return nil
}

// entries answers with a list.
func (p *responder) entries(l *server.List) error {
	l, err := p.inVersion(l)
	if err != nil {
		return err
	}
	p.auditList(l)
	switch {
	case p.acc.As != "":
		return p.shapedList(l)
	case p.acc.Format == reply.Proto:
		return p.protoList(l)
	}
	return p.jsonList(l)
}

func (l listOf) meta() metav1.ListMeta {
	m := metav1.ListMeta{Continue: l.Continue, RemainingItemCount: l.Remaining}
	if l.Revision != 0 {
		m.ResourceVersion = strconv.FormatInt(l.Revision, 10)
	}
	return m
}

type listOf struct{ *server.List }

func (p *responder) listGVK() schema.GroupVersionKind {
	return p.gvk.GroupVersion().WithKind(p.facts.ListKind)
}

// jsonList strings the items' encodings together. Those of built-in kinds lose their apiVersion and kind, which
// the list implies; custom resources keep them, as upstream has it.
func (p *responder) jsonList(l *server.List) error {
	head, err := p.listHead(l)
	if err != nil {
		return err
	}
	cut := []byte(`{"kind":"` + p.gvk.Kind + `","apiVersion":"` + p.gvk.GroupVersion().String() + `",`)
	open, between := []byte("{"), []byte(",")
	openNext := []byte(",{")
	room := p.room(l)
	return p.sendJSON(l, func(out reply.Emit) error {
		if err := out(head); err != nil {
			return err
		}
		for i, e := range l.Entries {
			if err := p.gone(i); err != nil {
				return err
			}
			doc, err := e.JSONIn(p.r.Context(), p.gvk, room)
			if err != nil {
				return err
			}
			rest, bare := doc, false
			if !p.facts.Custom {
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
func (p *responder) listHead(l *server.List) ([]byte, error) {
	meta, err := codec.MarshalJSON(listOf{l}.meta())
	if err != nil {
		return nil, err
	}
	if p.facts.Custom && l.Continue == "" { // upstream lists them in another way, which says so
		meta = append([]byte(`{"continue":"",`), meta[1:]...)
		meta = bytes.Replace(meta, []byte(",}"), []byte("}"), 1) // there was nothing else
	}
	gvk := p.listGVK()
	head := `{"kind":"` + gvk.Kind + `","apiVersion":"` + gvk.GroupVersion().String() + `","metadata":`
	return append(append([]byte(head), meta...), `,"items":[`...), nil
}

func (p *responder) protoList(l *server.List) error {
	return p.protoItems(l, p.listGVK(), func(ctx context.Context, e *view.Entry) ([]byte, error) { return e.RawProto(ctx, p.gvk) })
}

// protoItems assembles a list message by hand: every list type has its metadata in field 1 and the items in field 2.
func (p *responder) protoItems(l *server.List, gvk schema.GroupVersionKind, encode func(context.Context, *view.Entry) ([]byte,
	error)) error {
	meta := listOf{l}.meta()
	raw, err := meta.Marshal()
	if err != nil {
		return err
	}
	first := protowire.AppendVarint([]byte{0x0a}, uint64(len(raw)))
	first = append(first, raw...)
	if big := large(l); big && gvk == p.listGVK() {
		return p.streamProto(l, first)
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
	for i, e := range l.Entries {
		if err := p.gone(i); err != nil {
			return err
		}
		item, err := encode(p.r.Context(), e)
		if err != nil {
			return err
		}
		from := len(tags)
		tags = protowire.AppendVarint(append(tags, 0x12), uint64(len(item)))
		size += len(tags) - from + len(item)
		parts = append(parts, tags[from:len(tags):len(tags)], item)
	}
	head, tail := codec.Around(gvk, size)
	parts[0] = head
	p.send.Write(p.w, p.r, http.StatusOK, codec.Protobuf, append(parts, tail)...)
	return nil
}

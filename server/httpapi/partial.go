package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/view"
)

// Bare metadata is cut out of the encodings that entries keep, as watchers of metadata alone read whole clusters.

// protoMetadata returns the beginning of a bare message up to the end of field 1, the metadata. That is a
// PartialObjectMetadata as it stands.
func protoMetadata(raw []byte) ([]byte, bool) {
	if len(raw) == 0 || raw[0] != 0x0a {
		return nil, false
	}
	size, n := binary.Uvarint(raw[1:])
	if n <= 0 || size > uint64(len(raw)-1-n) {
		return nil, false
	}
	return raw[:1+n+int(size)], true
}

// jsonMetadata returns the value of metadata in a document that begins with kind, apiVersion and metadata.
func jsonMetadata(doc []byte, gvk schema.GroupVersionKind) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(doc, []byte(`{"kind":"`+gvk.Kind+`","apiVersion":"`+gvk.GroupVersion().String()+`","metadata":`))
	if !ok {
		return nil, false
	}
	end := objectEnd(rest)
	return rest[:end], end > 0
}

// objectEnd returns the end of the JSON object at the beginning of b, or 0.
func objectEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i+1:])
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// stringEnd returns the position, counted from 1, of the quote that ends the string whose content b begins with.
func stringEnd(b []byte) int {
	for i := 0; ; i++ {
		next := bytes.IndexByte(b[i:], '"')
		if next < 0 {
			return len(b)
		}
		i += next
		slashes := 0
		for slashes < i && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// partialHead is a PartialObjectMetadata up to the value of its metadata.
func (p *responder) partialHead() []byte {
	return []byte(`{"kind":"` + shapePartial + `","apiVersion":"` + p.acc.APIVersion() + `","metadata":`)
}

// metadataOf is the encoded metadata of an entry: a JSON object, or a bare PartialObjectMetadata message.
func (p *responder) metadataOf(ctx context.Context, e *view.Entry) ([]byte, error) {
	if name := p.facts.Hides; name != "" && e.Object.GetAnnotations()[name] != "" {
		return p.metadataAnew(e)
	}
	gvk := p.facts.GVK // another version may show fields as annotations
	if p.facts.Custom {
		gvk = p.gvk
	}
	if p.acc.Format == reply.Proto {
		if !p.facts.Custom {
			raw, err := e.RawProto(ctx, gvk)
			if err != nil {
				return nil, err
			}
			if cut, ok := protoMetadata(raw); ok {
				return cut, nil
			}
		}
		return p.metadataAnew(e)
	}
	doc, err := e.JSON(ctx, gvk)
	if err != nil {
		return nil, err
	}
	if cut, ok := jsonMetadata(doc, gvk); ok {
		return cut, nil
	}
	return p.metadataAnew(e)
}

// metadataAnew is metadataOf where nothing can be cut out.
func (p *responder) metadataAnew(e *view.Entry) ([]byte, error) {
	if p.acc.Format == reply.Proto {
		return codec.RawProto(p.partial(e.Object))
	}
	return codec.MarshalJSON(&p.partial(e.Object).ObjectMeta)
}

// partialList answers with the metadata of a list.
func (p *responder) partialList(l *server.List) error {
	if p.acc.Format == reply.Proto {
		return p.protoItems(l, p.partialGVK(shapePartials), p.metadataOf)
	}
	meta, err := codec.MarshalJSON(listOf{l}.meta())
	if err != nil {
		return err
	}
	head := `{"kind":"` + shapePartials + `","apiVersion":"` + p.acc.APIVersion() + `","metadata":` + string(meta) + `,"items":`
	if len(l.Entries) == 0 { // no items are null, as upstream has it
		p.send.Document(p.w, p.r, p.acc, http.StatusOK, []byte(head+"null}"))
		return nil
	}
	first := append([]byte("["), p.partialHead()...)
	next := append([]byte("},"), p.partialHead()...)
	return p.sendJSON(l, func(out reply.Emit) error {
		if err := out([]byte(head)); err != nil {
			return err
		}
		for i, e := range l.Entries {
			if err := p.gone(i); err != nil {
				return err
			}
			item, err := p.metadataOf(p.r.Context(), e)
			if err != nil {
				return err
			}
			between := next
			if i == 0 {
				between = first
			}
			if err := out(between, item); err != nil {
				return err
			}
		}
		return out([]byte("}]}"))
	})
}

// joined answers with a JSON document in parts.
func (p *responder) joined(parts [][]byte) {
	if p.acc.Pretty || p.acc.Format == reply.YAML {
		p.send.Document(p.w, p.r, p.acc, http.StatusOK, bytes.Join(parts, nil))
		return
	}
	p.send.Write(p.w, p.r, http.StatusOK, codec.JSON, append(parts, reply.Newline)...)
}

func (p *responder) partialGVK(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: p.acc.Version, Kind: kind}
}

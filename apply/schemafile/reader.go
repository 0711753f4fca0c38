package schemafile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	gvks "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

func sortedKinds(m map[gvks.GroupVersionKind]string) []gvks.GroupVersionKind {
	return coldsort.Sorted(maps.Keys(m), func(a, b gvks.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
}

var errTruncated = errors.New("the file ends too early")

// reader is a writer backwards. After the first error everything reads as zero.
type reader struct {
	buf     []byte
	strings []string
	scalars map[string]*schema.Scalar
	err     error
}

func (r *reader) num() uint64 {
	n, size := binary.Uvarint(r.buf)
	if size <= 0 {
		r.buf, r.err = nil, errTruncated
		return 0
	}
	r.buf = r.buf[size:]
	return n
}

// count reads a length. No list is longer than the bytes that describe it, so damage can't make it huge.
func (r *reader) count() int {
	n := r.num()
	if n > uint64(len(r.buf)) {
		r.buf, r.err = nil, errTruncated
		return 0
	}
	return int(n)
}

func (r *reader) table() {
	r.scalars = map[string]*schema.Scalar{}
	r.strings = make([]string, r.count())
	for i := range r.strings {
		n := r.count()
		r.strings[i], r.buf = string(r.buf[:n]), r.buf[n:]
	}
}

func (r *reader) str() string {
	n := r.num()
	if n >= uint64(len(r.strings)) {
		r.buf, r.err = nil, errTruncated
		return ""
	}
	return r.strings[n]
}

func (r *reader) atom(a *schema.Atom) {
	bits := r.num()
	if bits&hasScalar != 0 {
		a.Scalar = r.scalar(r.str())
	}
	if bits&hasList != 0 {
		a.List = &schema.List{}
		r.ref(&a.List.ElementType)
		a.List.ElementRelationship = schema.ElementRelationship(r.str())
		for range r.count() {
			a.List.Keys = append(a.List.Keys, r.str())
		}
	}
	if bits&hasMap != 0 {
		a.Map = &schema.Map{}
		r.fields(a.Map)
	}
}

func (r *reader) scalar(s string) *schema.Scalar {
	p := r.scalars[s]
	if p == nil {
		v := schema.Scalar(s)
		p = &v
		r.scalars[s] = p
	}
	return p
}

func (r *reader) fields(m *schema.Map) {
	r.ref(&m.ElementType)
	m.ElementRelationship = schema.ElementRelationship(r.str())
	m.Fields = make([]schema.StructField, r.count())
	for i := range m.Fields {
		f := &m.Fields[i]
		f.Name = r.str()
		r.ref(&f.Type)
		if def := r.str(); def == `""` {
			f.Default = ""
		} else if def != "" {
			r.err = errors.Join(r.err, json.Unmarshal([]byte(def), &f.Default))
		}
	}
	if len(m.Fields) == 0 {
		m.Fields = nil
	}
}

func (r *reader) ref(t *schema.TypeRef) {
	bits := r.num()
	if bits&hasName != 0 {
		s := r.str()
		t.NamedType = &s
	}
	if bits&hasInline != 0 {
		r.atom(&t.Inlined)
	}
	if bits&hasRelationship != 0 {
		rel := schema.ElementRelationship(r.str())
		t.ElementRelationship = &rel
	}
	t.Nullable = bits&isNullable != 0
}

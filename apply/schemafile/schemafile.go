// Package schemafile is the compact file form of the merge schemas of all built-in types: which lists are
// sets, maps or atoms. Parsing the YAML that client-go ships takes 100-160 ms; reading this takes about two.
package schemafile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	gvks "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// A File holds type definitions and says which kinds they describe.
type File struct {
	Types []schema.TypeDef
	Kinds map[gvks.GroupVersionKind]string // to the name of a type
}

// The parts that an atom may have, as bits.
const (
	hasScalar = 1 << iota
	hasList
	hasMap
)

// The parts that a reference may have, as bits.
const (
	hasName = 1 << iota
	hasInline
	hasRelationship
	isNullable
)

// Encode writes the file, compressed.
func Encode(f *File) ([]byte, error) {
	w := &writer{index: map[string]uint64{}}
	w.num(len(f.Types))
	for i := range f.Types {
		w.str(f.Types[i].Name)
		w.atom(&f.Types[i].Atom)
	}
	w.num(len(f.Kinds))
	for _, gvk := range sortedKinds(f.Kinds) {
		w.str(gvk.Group)
		w.str(gvk.Version)
		w.str(gvk.Kind)
		w.str(f.Kinds[gvk])
	}
	if w.err != nil {
		return nil, w.err
	}
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	head := &writer{}
	head.num(len(w.strings))
	for _, s := range w.strings {
		head.num(len(s))
		head.buf = append(head.buf, s...)
	}
	_, _ = zip.Write(head.buf) // a bytes.Buffer takes everything
	_, _ = zip.Write(w.buf)
	err := zip.Close()
	return out.Bytes(), err
}

// writer interns strings: every one of them is stored once and then named by its number.
type writer struct {
	buf     []byte
	strings []string
	index   map[string]uint64
	err     error
}

func (w *writer) num(n int) { w.buf = binary.AppendUvarint(w.buf, uint64(n)) }

func (w *writer) str(s string) {
	n, ok := w.index[s]
	if !ok {
		n = uint64(len(w.strings))
		w.index[s], w.strings = n, append(w.strings, s)
	}
	w.buf = binary.AppendUvarint(w.buf, n)
}

func (w *writer) atom(a *schema.Atom) {
	bits := 0
	if a.Scalar != nil {
		bits |= hasScalar
	}
	if a.List != nil {
		bits |= hasList
	}
	if a.Map != nil {
		bits |= hasMap
	}
	w.num(bits)
	if a.Scalar != nil {
		w.str(string(*a.Scalar))
	}
	if l := a.List; l != nil {
		w.ref(&l.ElementType)
		w.str(string(l.ElementRelationship))
		w.num(len(l.Keys))
		for _, k := range l.Keys {
			w.str(k)
		}
	}
	if m := a.Map; m != nil {
		w.fields(m)
	}
}

func (w *writer) fields(m *schema.Map) {
	w.ref(&m.ElementType)
	w.str(string(m.ElementRelationship))
	w.num(len(m.Fields))
	for i := range m.Fields {
		f := &m.Fields[i]
		w.str(f.Name)
		w.ref(&f.Type)
		if f.Default == nil {
			w.str("")
			continue
		}
		b, err := json.Marshal(f.Default)
		w.err = errors.Join(w.err, err)
		w.str(string(b))
	}
}

func (w *writer) ref(r *schema.TypeRef) {
	bits := 0
	if r.NamedType != nil {
		bits |= hasName
	}
	if r.Inlined != (schema.Atom{}) {
		bits |= hasInline
	}
	if r.ElementRelationship != nil {
		bits |= hasRelationship
	}
	if r.Nullable {
		bits |= isNullable
	}
	w.num(bits)
	if r.NamedType != nil {
		w.str(*r.NamedType)
	}
	if bits&hasInline != 0 {
		w.atom(&r.Inlined)
	}
	if r.ElementRelationship != nil {
		w.str(string(*r.ElementRelationship))
	}
}

// Decode reads a file.
func Decode(data []byte) (*File, error) {
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("open the merge schemas: %w", err)
	}
	raw, err := io.ReadAll(zip)
	if err != nil {
		return nil, fmt.Errorf("unpack the merge schemas: %w", err)
	}
	r := &reader{buf: raw}
	r.table()
	f := &File{Types: make([]schema.TypeDef, r.count()), Kinds: map[gvks.GroupVersionKind]string{}}
	for i := range f.Types {
		f.Types[i].Name = r.str()
		r.atom(&f.Types[i].Atom)
	}
	for range r.count() {
		gvk := gvks.GroupVersionKind{Group: r.str(), Version: r.str(), Kind: r.str()}
		f.Kinds[gvk] = r.str()
	}
	if r.err != nil {
		return nil, fmt.Errorf("read the merge schemas: %w", r.err)
	}
	return f, nil
}

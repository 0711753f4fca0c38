package apply

import (
	_ "embed"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	gvks "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kloop-dev/kloop/apply/schemafile"
)

// schemaFile is made by the generator of package openapi from the API types.
//
//go:embed schema.bin.gz
var schemaFile []byte

// builtin reads the schemas of all built-in kinds; they are shared by all trackers of the process.
var builtin = sync.OnceValues(func() (map[gvks.GroupVersionKind]typed.ParseableType, *schema.Schema) {
	f, err := schemafile.Decode(schemaFile)
	if err != nil {
		panic(err) // the file is part of the binary, and a test reads it
	}
	p := &typed.Parser{Schema: schema.Schema{Types: f.Types}}
	kinds := make(map[gvks.GroupVersionKind]typed.ParseableType, len(f.Kinds))
	for gvk, name := range f.Kinds {
		kinds[gvk] = p.Type(name)
	}
	return kinds, &p.Schema
})

const metaType = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// types finds the merge schema of a kind.
type types struct {
	mu     sync.Mutex
	custom atomic.Pointer[map[gvks.GroupVersionKind]func() typed.ParseableType]
}

// of returns the type; kinds that have none get one that is deduced from the values.
func (t *types) of(gvk gvks.GroupVersionKind) typed.ParseableType {
	if m := t.custom.Load(); m != nil {
		if made, ok := (*m)[gvk]; ok {
			return made()
		}
	}
	kinds, _ := builtin()
	if p, ok := kinds[gvk]; ok {
		return p
	}
	return typed.DeducedParseableType
}

func (t *types) set(gvk gvks.GroupVersionKind, s *spec.Schema) error {
	if s == nil {
		t.put(gvk, nil)
		return nil
	}
	p, err := customType(s)
	if err != nil {
		return fmt.Errorf("merge schema of %s: %w", gvk, err)
	}
	t.put(gvk, func() typed.ParseableType { return p })
	return nil
}

func (t *types) setLater(gvk gvks.GroupVersionKind, later func() (*spec.Schema, error)) {
	t.put(gvk, sync.OnceValue(func() typed.ParseableType {
		s, err := later()
		if s == nil && err == nil {
			return typed.DeducedParseableType
		}
		if err == nil {
			var p typed.ParseableType
			if p, err = customType(s); err == nil {
				return p
			}
		}
		slog.Warn("fields are tracked without their schema", "kind", gvk.Kind, "err", err)
		return typed.DeducedParseableType
	}))
}

func (t *types) put(gvk gvks.GroupVersionKind, made func() typed.ParseableType) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := map[gvks.GroupVersionKind]func() typed.ParseableType{}
	if m := t.custom.Load(); m != nil {
		next = maps.Clone(*m)
	}
	delete(next, gvk)
	if made != nil {
		next[gvk] = made
	}
	t.custom.Store(&next)
}

// customType derives the merge schema of a whole object; its metadata is that of all objects, whatever the
// definition says.
func customType(s *spec.Schema) (typed.ParseableType, error) {
	const name = "object"
	made, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{name: s}, false)
	if err != nil {
		return typed.ParseableType{}, err
	}
	_, known := builtin()
	p := &typed.Parser{Schema: schema.Schema{Types: made.Types}}
	for _, t := range known.Types {
		if _, dup := p.Schema.FindNamedType(t.Name); !dup && isMeta(t.Name) {
			p.Schema.Types = append(p.Schema.Types, t)
		}
	}
	p = &typed.Parser{Schema: schema.Schema{Types: p.Schema.Types}} // FindNamedType remembered the short list
	for i := range p.Schema.Types {
		if d := &p.Schema.Types[i]; d.Name == name && d.Map != nil {
			d.Map = withMeta(d.Map)
		}
	}
	return p.Type(name), nil
}

func isMeta(name string) bool {
	switch name {
	case metaType, "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference", "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
		"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "io.k8s.apimachinery.pkg.apis.meta.v1.Time":
		return true
	}
	return false
}

func withMeta(m *schema.Map) *schema.Map {
	out := &schema.Map{ElementType: m.ElementType, ElementRelationship: m.ElementRelationship}
	str, meta := schema.String, metaType
	out.Fields = []schema.StructField{
		{Name: "apiVersion", Type: schema.TypeRef{Inlined: schema.Atom{Scalar: &str}}},
		{Name: "kind", Type: schema.TypeRef{Inlined: schema.Atom{Scalar: &str}}},
		{Name: "metadata", Type: schema.TypeRef{NamedType: &meta}},
	}
	for _, f := range m.Fields {
		switch f.Name {
		case "apiVersion", "kind", "metadata":
		default:
			out.Fields = append(out.Fields, f)
		}
	}
	return out
}

package crd

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource"
)

// parts stands for those that hear of kinds.
type parts struct {
	t     *testing.T
	set   *resource.Set
	told  int
	wants int64 // generation
}

func (p *parts) Adopt(...resource.Kind) error                                         { return nil }
func (p *parts) Drop(schema.GroupResource) error                                      { return nil }
func (p *parts) Wake(...resource.Kind)                                                {}
func (p *parts) SetSchema(schema.GroupVersionKind, *spec.Schema) error                { return nil }
func (p *parts) RemoveSchema(schema.GroupVersionKind)                                 {}
func (p *parts) SetSchemaLater(schema.GroupVersionKind, func() (*spec.Schema, error)) {}
func (p *parts) AddSchemaLater(gvk schema.GroupVersionKind, _ string, _ func() (*spec.Schema, error)) {
	p.told++
	if k, ok := p.set.Kind(gvk); !ok || k.(*Kind).def.Generation != p.wants {
		p.t.Errorf("%s is described before it is in force: served %t", gvk, ok)
	}
}

// TestDocumentsFollow: clients wait for the document of a schema to know that it is in force.
func TestDocumentsFollow(t *testing.T) {
	p := &parts{t: t, set: &resource.Set{}}
	r := &Registry{Kinds: p.set, View: p, Fields: p, Docs: p}
	for p.wants = 1; p.wants < 3; p.wants++ {
		def := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(tabText), def); err != nil {
			t.Fatal(err)
		}
		def.Generation = p.wants
		def.Spec.Versions[1].Deprecated = p.wants == 1
		def.Status.AcceptedNames = def.Spec.Names
		if err := r.Serve(Source{def, func() *apiextensionsv1.CustomResourceDefinition { return def }}); err != nil {
			t.Fatal(err)
		}
	}
	if p.told != 4 {
		t.Errorf("documents of two versions were told %d times, want 4", p.told)
	}
}

package apiextensions

import (
	"bytes"
	"runtime"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A definition comes out of memory as it went in, and shows all but its schemas without being read.
func TestSealed(t *testing.T) {
	c := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "x.example",
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
				Default: &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)}}}}, {Name: "v2"}}}}
	c.Name, c.Labels = "as.x.example", map[string]string{"a": "b"}
	c.SetGroupVersionKind(CustomResourceDefinitions.GVK)
	want := c.DeepCopy()
	want.ResourceVersion = "7"
	sealed := CustomResourceDefinitions.Pack(c, nil, 7)
	stored, err := codec.Stored(CustomResourceDefinitions, c)
	if kept, err2 := codec.Stored(CustomResourceDefinitions, sealed); err != nil || err2 != nil || !bytes.Equal(kept, stored) {
		t.Errorf("stored as %q, want %q (%v, %v)", kept, stored, err2, err)
	}
	for what, got := range map[string]resource.Object{"opened": resource.Opened(sealed), "read": resource.Clone(sealed)} {
		t.Run(what, func(t *testing.T) {
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s: %v\nwant %v", what, got, want)
			}
		})
	}
	out := resource.Outline[crd](sealed)
	if v := out.Spec.Versions; v[0].Schema == nil || v[0].Schema.OpenAPIV3Schema != nil || v[1].Schema != nil ||
		out.ResourceVersion != "7" || out.Labels["a"] != "b" {
		t.Errorf("outline: %v", out)
	}
	later := sealed.(*Sealed).Stamped(9)
	if sealed.GetResourceVersion() != "7" || later.GetResourceVersion() != "9" || resource.Clone(later).GetResourceVersion() != "9" {
		t.Error("revisions are mixed up")
	}
}

func TestSealedIsReadOnce(t *testing.T) {
	c := largeDefinition(t)
	text, err := codec.MarshalProto(c)
	if err != nil {
		t.Fatal(err)
	}
	s := seal(largeDefinition(t), text, 7).(*Sealed)
	first := s.Open().(crd)
	if again := s.Open().(crd); again != first {
		t.Error("it is read again while somebody holds it")
	}
	own := s.DeepCopyObject().(crd)
	own.Spec.Versions[0].Schema.OpenAPIV3Schema.Type = "string"
	own.Status.StoredVersions[0] = "v7"
	if first.Spec.Versions[0].Schema.OpenAPIV3Schema.Type != "object" || first.Status.StoredVersions[0] != "v1" {
		t.Error("a copy shares memory with what is kept")
	}
	if s.Differs(first) || !s.Differs(own) {
		t.Error("differences are told of wrongly")
	}
	draft := Draft{first}.DeepCopyObject().(crd)
	if draft.Spec.Versions[0].Schema != first.Spec.Versions[0].Schema {
		t.Error("the copy of a draft has schemas of its own")
	}
	draft.Status.StoredVersions[0], draft.Spec.Versions[0].Name = "v8", "v8"
	if draft.ResourceVersion != "7" || first.Status.StoredVersions[0] != "v1" || first.Spec.Versions[0].Name != "v1" {
		t.Errorf("the copy of a draft shares more than schemas: %v", first.Status)
	}
}

// A status is written without a look at the schemas.
func TestWarnOfTheSameVersions(t *testing.T) {
	c := largeDefinition(t)
	c.Spec.Versions[0].Schema.OpenAPIV3Schema.Format = "strange"
	same, other := *c, c.DeepCopy()
	other.Spec.Versions[0].Schema.OpenAPIV3Schema.Format = ""
	for name, test := range map[string]struct {
		old  crd
		want int
	}{"new": {nil, 1}, "the very same": {&same, 0}, "the same": {c.DeepCopy(), 0}, "new in an old one": {other, 1}} {
		t.Run(name, func(t *testing.T) {
			if got := warnDefinition(nil, c, test.old); len(got) != test.want {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}

// What is stored of a new status is what the codec would store, made without a look at the schemas.
func TestRewritten(t *testing.T) {
	c := largeDefinition(t)
	c.SetGroupVersionKind(CustomResourceDefinitions.GVK)
	s := CustomResourceDefinitions.Pack(c, nil, 7).(*Sealed)
	held := s.Open().(crd)
	next := Draft{held}.DeepCopyObject().(crd)
	if s.Rewritten(next) != nil {
		t.Error("versions that were copied may be others")
	}
	next.Spec = held.Spec
	next.ResourceVersion, next.Labels, next.Status.StoredVersions = "", map[string]string{"a": "b"}, []string{"v1", "v2"}
	want, err := codec.Stored(CustomResourceDefinitions, next)
	if got := s.Rewritten(next); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
	next.Spec.Group = "other"
	if s.Rewritten(next) != nil {
		t.Error("another spec was taken for the old one")
	}
	runtime.KeepAlive(held)
}

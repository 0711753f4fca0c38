package apiextensions

import (
	"testing"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/resource"
)

// A definition comes out of memory as it went in, and shows all but its schemas without being read.
func TestSealed(t *testing.T) {
	c := &v1.CustomResourceDefinition{Spec: v1.CustomResourceDefinitionSpec{Group: "x.example", Versions: []v1.CustomResourceDefinitionVersion{
		{Name: "v1", Schema: &v1.CustomResourceValidation{OpenAPIV3Schema: &v1.JSONSchemaProps{Type: "object", Default: &v1.JSON{Raw: []byte(`{"a":1}`)}}}}, {Name: "v2"}}}}
	c.Name, c.Labels = "as.x.example", map[string]string{"a": "b"}
	c.SetGroupVersionKind(CustomResourceDefinitions.GVK)
	want := c.DeepCopy()
	want.ResourceVersion = "7"
	sealed := CustomResourceDefinitions.Pack(c, nil, 7)
	if got := resource.Opened(sealed); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("opened: %v\nwant %v", got, want)
	}
	out := resource.Outline[crd](sealed)
	if v := out.Spec.Versions; v[0].Schema == nil || v[0].Schema.OpenAPIV3Schema != nil || v[1].Schema != nil || out.ResourceVersion != "7" || out.Labels["a"] != "b" {
		t.Errorf("outline: %v", out)
	}
	later := sealed.(*Sealed).Stamped(9)
	if sealed.GetResourceVersion() != "7" || later.GetResourceVersion() != "9" || resource.Clone(later).GetResourceVersion() != "9" {
		t.Error("revisions are mixed up")
	}
}

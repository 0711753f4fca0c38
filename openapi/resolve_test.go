package openapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestResolved(t *testing.T) {
	s, err := Resolved(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"spec", "template", "spec", "containers"} {
		p, ok := s.Properties[step]
		if !ok {
			t.Fatalf("there is no %s", step)
		}
		s = &p
	}
	image := s.Items.Schema.Properties["image"]
	if !image.Type.Contains("string") {
		t.Errorf("image is %v", image)
	}
	// A definition's schema is a type within itself.
	if s, err := Resolved(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}); s == nil || err != nil {
		t.Errorf("%v %v", s, err)
	}
	if s, err := Resolved(schema.GroupVersionKind{Version: "v1", Kind: "Nothing"}); s != nil || err != nil {
		t.Errorf("%v %v", s, err)
	}
}

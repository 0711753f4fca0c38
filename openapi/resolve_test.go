package openapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/features"
)

func TestResolved(t *testing.T) {
	s, err := Resolved(nil, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
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
	old, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	for on, want := range map[*features.Set]bool{nil: true, old: false} {
		s, err := Resolved(on, schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"})
		if err != nil {
			t.Fatal(err)
		}
		inner := s.Properties["spec"]
		if _, ok := inner.Properties["scheduling"]; ok != want {
			t.Errorf("a field of 1.37 in %v: %v", on, ok)
		}
	}
	// A definition's schema is a type within itself.
	if s, err := Resolved(nil, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}); s == nil || err != nil {
		t.Errorf("%v %v", s, err)
	}
	if s, err := Resolved(nil, schema.GroupVersionKind{Version: "v1", Kind: "Nothing"}); s != nil || err != nil {
		t.Errorf("%v %v", s, err)
	}
}

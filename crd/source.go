package crd

import (
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/resource"
)

// A Source is a definition as it is kept. Schemas are large and seldom asked for: they are read when they are.
type Source struct {
	*apiextensionsv1.CustomResourceDefinition                                                  // its schemas may be missing
	Whole                                     func() *apiextensionsv1.CustomResourceDefinition // with its schemas; not to be changed
}

// SourceOf returns the source that an object is, which must not change.
func SourceOf(obj resource.Object) Source {
	return Source{resource.Outline[*apiextensionsv1.CustomResourceDefinition](obj),
		func() *apiextensionsv1.CustomResourceDefinition {
			return resource.As[*apiextensionsv1.CustomResourceDefinition](obj)
		}}
}

// agrees says that two states of one definition have the same spec.
func (s Source) agrees(o Source) bool {
	if s.Generation == o.Generation && s.Generation != 0 {
		return true
	}
	return equality.Semantic.DeepEqual(s.Whole().Spec, o.Whole().Spec)
}

// A text is the source of the schema of a version. The definition may be another one by now that says the same: what
// was stored before is let go.
type text struct {
	at      atomic.Pointer[Source]
	version string
}

func (t *text) read() *apiextensionsv1.JSONSchemaProps {
	whole := t.at.Load().Whole()
	for i := range whole.Spec.Versions {
		if v := &whole.Spec.Versions[i]; v.Name == t.version && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

package server

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// A custom kind knows more of itself than a built-in one has to.
type custom interface {
	// Declaration stands for the spec and the names of the definition: another one has another.
	Declaration() any
	// CheckWarn is Check that may also warn.
	CheckWarn(sub string, obj, old resource.Object, warn func(text string)) field.ErrorList
}

// checkKind holds an object to the rules of its kind; old is nil for a new one.
func (s *Server) checkKind(r *Request, obj, old resource.Object) field.ErrorList {
	if c, ok := r.Kind.(custom); ok {
		return c.CheckWarn(r.Sub, obj, old, r.warn)
	}
	if old == nil {
		return resource.CheckAs(s.Kinds.Features(), r.Kind, r.Spoken(), "", obj, nil)
	}
	return resource.CheckAs(s.Kinds.Features(), r.Kind, r.GVK, r.Sub, obj, old)
}

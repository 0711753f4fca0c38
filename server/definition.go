package server

import (
	"context"
	"errors"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// deleteDefinition marks a definition of a kind as terminating; it goes when its objects are gone.
func (s *Server) deleteDefinition(ctx context.Context, r *Request, obj resource.Object, cur *view.Entry) (*view.Entry, bool, error) {
	def, ok := resource.Opened(obj).(*apiextensions.CustomResourceDefinition)
	switch {
	case !ok || def.DeletionTimestamp != nil && len(def.Finalizers) == 0:
		return s.deleteNow(ctx, r, cur)
	case def.DeletionTimestamp != nil:
		return cur, false, nil
	case r.many && len(def.Finalizers) == 0 && s.unused(def):
		return s.deleteNow(ctx, r, cur)
	}
	now := s.stamp()
	def.DeletionTimestamp = &now
	if !slices.Contains(def.Finalizers, apiextensions.CustomResourceCleanupFinalizer) {
		def.Finalizers = append(def.Finalizers, apiextensions.CustomResourceCleanupFinalizer)
	}
	pending := apiextensions.CustomResourceDefinitionCondition{Type: apiextensions.Terminating, Status: apiextensions.ConditionTrue,
		LastTransitionTime: now, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"}
	def.Status.Conditions = slices.DeleteFunc(def.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensions.Terminating
	})
	def.Status.Conditions = append(def.Status.Conditions, pending)
	e, err := s.mute(ctx, r, def, cur)
	return e, false, err
}

// A custom kind knows more of itself than a built-in one has to.
type custom interface {
	// Closing says that the kind is being taken away.
	Closing() bool
	// Declaration stands for the spec and the names of the definition: another one has another.
	Declaration() any
	// CheckWarn is Check that may also warn.
	CheckWarn(sub string, obj, old resource.Object, warn func(text string)) field.ErrorList
}

// open refuses new objects of a kind whose definition is under deletion. The kind itself learns of it a little later than
// who reads the definition.
func (s *Server) open(r *Request, obj resource.Object) error {
	c, ok := r.Kind.(custom)
	if !ok {
		return nil
	}
	if c.Closing() || s.closing(r.Kind.Info().GR()) {
		return apierrors.NewForbidden(r.resource(), obj.GetName(), errors.New("create not allowed while custom resource definition is terminating"))
	}
	return nil
}

// closing says that the definition of a custom kind is marked for deletion.
func (s *Server) closing(gr schema.GroupResource) bool {
	defs, ok := s.Kinds.GR(definitions)
	if !ok {
		return false
	}
	def := s.View.Snapshot().Lookup(defs, "", gr.String())
	return def != nil && def.GetDeletionTimestamp() != nil
}

// definitions is the resource that defines kinds; each is named after the resource that it defines.
var definitions = schema.GroupResource{Group: apiextensions.GroupName, Resource: "customresourcedefinitions"}

// checkKind holds an object to the rules of its kind; old is nil for a new one.
func (s *Server) checkKind(r *Request, obj, old resource.Object) field.ErrorList {
	if c, ok := r.Kind.(custom); ok {
		return c.CheckWarn(r.Sub, obj, old, r.warn)
	}
	if old == nil {
		return resource.CheckAs(s.Kinds.Features(), r.Kind, r.spoken(), "", obj, nil)
	}
	return resource.CheckAs(s.Kinds.Features(), r.Kind, r.GVK, r.Sub, obj, old)
}

// unused says that there are no objects of a definition.
func (s *Server) unused(def *apiextensions.CustomResourceDefinition) bool {
	k, ok := s.Kinds.GR(schema.GroupResource{Group: def.Spec.Group, Resource: def.Spec.Names.Plural})
	return !ok || s.View.Snapshot().Count(k, "") == 0
}

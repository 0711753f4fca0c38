// Package definitions has what CustomResourceDefinitions (CRDs), and the kinds that they define, need of the front door: a definition
// under deletion stays until its objects are gone, and takes no new ones.
package definitions

import (
	"context"
	"errors"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// Extensions are for definitions and for all kinds that users define.
func Extensions(c *server.Core) []server.Extension {
	s := extension{c}
	return []server.Extension{{Resource: definitions, Delete: s.delete, Failed: "precondition failed"}, {Open: s.open}}
}

type extension struct{ *server.Core }

// delete marks a definition of a kind as terminating; it goes when its objects are gone. Deleted again, it is an object like any other.
func (s extension) delete(ctx context.Context, r *server.Request, opts *metav1.DeleteOptions,
	obj resource.Object, cur *view.Entry) (*view.Entry, bool, error) {
	def, ok := resource.Opened(obj).(*apiextensionsv1.CustomResourceDefinition)
	switch {
	case !ok || def.DeletionTimestamp != nil && len(def.Finalizers) == 0:
		return s.DeleteNow(ctx, r, cur)
	case def.DeletionTimestamp != nil:
		return s.DeletePlainly(ctx, r, opts, def, cur)
	case r.Many() && len(def.Finalizers) == 0 && s.unused(def):
		return s.DeleteNow(ctx, r, cur)
	}
	now := s.Stamp()
	def.DeletionTimestamp = &now
	if !slices.Contains(def.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		def.Finalizers = append(def.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	pending := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue,
		LastTransitionTime: now, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"}
	def.Status.Conditions = slices.DeleteFunc(def.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Terminating
	})
	def.Status.Conditions = append(def.Status.Conditions, pending)
	e, err := s.Overwrite(ctx, r, def, cur)
	return e, false, err
}

// A custom kind tells more of itself than a built-in one.
type custom interface {
	// Closing says that the kind is being taken away.
	Closing() bool
}

// open refuses new objects of a kind whose definition is under deletion. The kind itself learns of it a little later than
// who reads the definition.
func (s extension) open(r *server.Request, obj resource.Object) error {
	c, ok := r.Kind.(custom)
	if !ok {
		return nil
	}
	if c.Closing() || s.closing(r.Kind.Info().GR()) {
		return apierrors.NewForbidden(r.Resource(), obj.GetName(),
			errors.New("create not allowed while custom resource definition is terminating"))
	}
	return nil
}

// closing says that the definition of a custom kind is marked for deletion.
func (s extension) closing(gr schema.GroupResource) bool {
	defs, ok := s.Kinds.GR(definitions)
	if !ok {
		return false
	}
	def := s.View.Entry(defs, "", gr.String()).Found()
	return def != nil && def.GetDeletionTimestamp() != nil
}

// definitions is the resource that defines kinds; each is named after the resource that it defines.
var definitions = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// unused says that there are no objects of a definition.
func (s extension) unused(def *apiextensionsv1.CustomResourceDefinition) bool {
	k, ok := s.Kinds.GR(schema.GroupResource{Group: def.Spec.Group, Resource: def.Spec.Names.Plural})
	return !ok || s.View.Snapshot().Count(k, "") == 0
}

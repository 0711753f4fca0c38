package server

import (
	"context"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// deleteDefinition marks a definition of a kind as terminating; it goes when its objects are gone.
func (s *Server) deleteDefinition(ctx context.Context, r *Request, obj resource.Object, cur *view.Entry) (*view.Entry, bool, error) {
	def, ok := obj.(*apiextensions.CustomResourceDefinition)
	switch {
	case !ok || def.DeletionTimestamp != nil && len(def.Finalizers) == 0:
		return s.deleteNow(ctx, r, cur)
	case def.DeletionTimestamp != nil:
		return cur, false, nil
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

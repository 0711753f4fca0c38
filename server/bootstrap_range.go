package server

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
)

// rangeManager is the field manager under which upstream's server says that its range of addresses is ready.
const rangeManager = "kubernetes-service-cidr-controller"

// tellRange says in the status of the server's own ServiceCIDR that it is ready. One that holds other ranges, or that
// somebody has judged already, is left alone.
func (s *Server) tellRange(ctx context.Context, own *networking.ServiceCIDR) error {
	k, ok := s.Kinds.Kind(own.GroupVersionKind())
	if !ok {
		return nil
	}
	obj, err := s.live(ctx, k, "", own.Name)
	if err != nil {
		return planting(own, err)
	}
	old, ok := obj.(*networking.ServiceCIDR)
	if !ok || old.DeletionTimestamp != nil || !slices.Equal(old.Spec.CIDRs, own.Spec.CIDRs) ||
		meta.FindStatusCondition(old.Status.Conditions, networking.ServiceCIDRConditionReady) != nil {
		return nil
	}
	data, err := json.Marshal(rangeStatus(own, s.now()))
	if err != nil {
		return planting(own, err)
	}
	r := s.myself(k, "", own.Name)
	r.Sub, r.Manager = "status", rangeManager
	_, _, err = s.Patch(ctx, r, types.ApplyYAMLPatchType, data, true)
	return planting(own, err)
}

// rangeStatus is what is applied: a condition without a reason, as upstream's.
func rangeStatus(own *networking.ServiceCIDR, now time.Time) any {
	return map[string]any{"apiVersion": own.APIVersion, "kind": own.Kind, "metadata": map[string]any{"name": own.Name},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": networking.ServiceCIDRConditionReady, "status": string(metav1.ConditionTrue),
			"message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": now.UTC().Format(time.RFC3339)}}}}
}

// tellRanges does so for those among the objects.
func (s *Server) tellRanges(ctx context.Context, objects []resource.Object) error {
	for _, obj := range objects {
		if own, ok := obj.(*networking.ServiceCIDR); ok {
			if err := s.tellRange(ctx, own); err != nil {
				return err
			}
		}
	}
	return nil
}

package services

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// rangeManager is the field manager under which upstream's server says that its range of addresses is ready.
const rangeManager = "kubernetes-service-cidr-controller"

// tellRange says in the status of the server's own ServiceCIDR that it is ready. One that holds other ranges, or that
// somebody has judged already, is left alone.
func (s *Allocator) tellRange(ctx context.Context, own *networkingv1.ServiceCIDR) error {
	k, ok := s.core.Kinds.Kind(own.GroupVersionKind())
	if !ok {
		return nil
	}
	obj, err := s.core.Live(ctx, k, "", own.Name)
	if err != nil {
		return telling(own, err)
	}
	old, ok := obj.(*networkingv1.ServiceCIDR)
	if !ok || old.DeletionTimestamp != nil || !slices.Equal(old.Spec.CIDRs, own.Spec.CIDRs) ||
		meta.FindStatusCondition(old.Status.Conditions, networkingv1.ServiceCIDRConditionReady) != nil {
		return nil
	}
	data, err := json.Marshal(rangeStatus(own, s.core.Time()))
	if err != nil {
		return telling(own, err)
	}
	r := server.ServerRequest(k, "", own.Name)
	r.Sub, r.Manager = "status", rangeManager
	_, _, err = s.ops.Patch(ctx, r, types.ApplyYAMLPatchType, data, true)
	return telling(own, err)
}

// rangeStatus is the configuration to apply: a condition without a reason, as upstream's.
func rangeStatus(own *networkingv1.ServiceCIDR, now time.Time) any {
	return map[string]any{"apiVersion": own.APIVersion, "kind": own.Kind, "metadata": map[string]any{"name": own.Name},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": networkingv1.ServiceCIDRConditionReady, "status": string(metav1.ConditionTrue),
			"message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": now.UTC().Format(time.RFC3339)}}}}
}

// TellRanges says in the status of the ServiceCIDRs among the bootstrap objects that they are ready.
func (s *Allocator) TellRanges(ctx context.Context, objects []resource.Object) error {
	for _, obj := range objects {
		if own, ok := obj.(*networkingv1.ServiceCIDR); ok {
			if err := s.tellRange(ctx, own); err != nil {
				return err
			}
		}
	}
	return nil
}

func telling(own *networkingv1.ServiceCIDR, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bootstrap ServiceCIDR %s: %w", own.Name, err)
}

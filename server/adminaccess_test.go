package server_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

var (
	claims = &resource.Def[*resourcev1.ResourceClaim]{GVK: resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), Plural: "resourceclaims",
		Namespaced: true, Status: true}
	claimTemplates = &resource.Def[*resourcev1.ResourceClaimTemplate]{GVK: resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"),
		Plural: "resourceclaimtemplates", Namespaced: true}
)

// TestAdminAccess claims devices that others use, in a namespace before and after it is labelled for that.
func TestAdminAccess(t *testing.T) {
	set := func(c *testcluster.Config) {
		c.Kinds = resource.NewSet(namespaces, claims, claimTemplates)
		c.View = view.NewWith(c.Kinds, view.Config{Guard: true})
	}
	w := start(t, set)
	ns := create(w, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	yes := true
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "a",
		Exactly: &resourcev1.ExactDeviceRequest{}},
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: &yes}}}}}
	claim := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	_, err := w.Create(t.Context(), w.ask(claims, ""), claim("c"))
	if got, want := reason(err), "Invalid FieldValueForbidden spec.devices.requests[1].adminAccess"; got != want {
		t.Errorf("claim: %q, want %q", got, want)
	}
	_, err = w.Create(t.Context(), w.ask(claimTemplates, ""), &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}})
	if got, want := reason(err), "Invalid FieldValueForbidden spec.devices.requests[1].adminAccess"; got != want {
		t.Errorf("template: %q, want %q", got, want)
	}
	labelled := resource.Clone(ns)
	labelled.Labels = map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}
	labelled = update(w, namespaces, labelled)
	c := resource.Clone(create(w, claims, claim("c")))
	labelled = resource.Clone(labelled)
	labelled.Labels = nil
	update(w, namespaces, labelled)
	c.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", AdminAccess: &yes}}}}
	_, _, err = w.Update(t.Context(), sub(w.ask(claims, "c"), "status"), c)
	if got, want := reason(err), "Invalid FieldValueForbidden status.allocation.devices.results[0].adminAccess"; got != want {
		t.Errorf("status: %q, want %q", got, want)
	}
}

package server_test

import (
	"testing"

	core "k8s.io/api/core/v1"
	v1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

var (
	claims = &resource.Def[*v1.ResourceClaim]{GVK: v1.SchemeGroupVersion.WithKind("ResourceClaim"), Plural: "resourceclaims",
		Namespaced: true, Status: true}
	claimTemplates = &resource.Def[*v1.ResourceClaimTemplate]{GVK: v1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"),
		Plural: "resourceclaimtemplates", Namespaced: true}
)

// TestAdminAccess claims devices that others use, in a namespace before and after it is labelled for that.
func TestAdminAccess(t *testing.T) {
	set := func(c *server.Config) {
		c.Kinds = resource.NewSet(namespaces, claims, claimTemplates)
		c.View = view.NewWith(c.Kinds, view.Config{Guard: true})
	}
	w := start(t, set)
	ns := create(w, namespaces, &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	yes := true
	spec := v1.ResourceClaimSpec{Devices: v1.DeviceClaim{Requests: []v1.DeviceRequest{{Name: "a", Exactly: &v1.ExactDeviceRequest{}},
		{Name: "r", Exactly: &v1.ExactDeviceRequest{AdminAccess: &yes}}}}}
	claim := func(name string) *v1.ResourceClaim {
		return &v1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	_, err := w.Create(t.Context(), w.ask(claims, ""), claim("c"))
	if got, want := reason(err), "Invalid FieldValueForbidden spec.devices.requests[1].adminAccess"; got != want {
		t.Errorf("claim: %q, want %q", got, want)
	}
	_, err = w.Create(t.Context(), w.ask(claimTemplates, ""), &v1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: v1.ResourceClaimTemplateSpec{Spec: spec}})
	if got, want := reason(err), "Invalid FieldValueForbidden spec.devices.requests[1].adminAccess"; got != want {
		t.Errorf("template: %q, want %q", got, want)
	}
	labelled := resource.Clone(ns)
	labelled.Labels = map[string]string{v1.DRAAdminNamespaceLabelKey: "true"}
	labelled = update(w, namespaces, labelled)
	c := resource.Clone(create(w, claims, claim("c")))
	labelled = resource.Clone(labelled)
	labelled.Labels = nil
	update(w, namespaces, labelled)
	c.Status.Allocation = &v1.AllocationResult{Devices: v1.DeviceAllocationResult{Results: []v1.DeviceRequestAllocationResult{{Request: "r", AdminAccess: &yes}}}}
	_, _, err = w.Update(t.Context(), sub(w.ask(claims, "c"), "status"), c)
	if got, want := reason(err), "Invalid FieldValueForbidden status.allocation.devices.results[0].adminAccess"; got != want {
		t.Errorf("status: %q, want %q", got, want)
	}
}

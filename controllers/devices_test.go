package controllers_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// TestClaimsOfTemplates follows a claim made of a template through its pod's life; the test plays the scheduler's part.
func TestClaimsOfTemplates(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		gpu := "gpu"
		pod := &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: &gpu}}}}
		pod = make1(c, kinds.Pods, pod)
		make1(c, kinds.ResourceClaimTemplates, &resourcev1.ResourceClaimTemplate{ObjectMeta: meta(gpu),
			Spec: resourcev1.ResourceClaimTemplateSpec{
				Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r",
					Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: gpu}}}}}}})
		claims := func(r resource.Reader) []*resourcev1.ResourceClaim {
			return resource.List(r, kinds.ResourceClaims, "default")
		}
		c.until("the pod knows its claim", func(r resource.Reader) bool {
			list := resource.Get(r, kinds.Pods, "default", "p").Status.ResourceClaimStatuses
			return len(list) == 1 && len(claims(r)) == 1 && *list[0].ResourceClaimName == claims(r)[0].Name
		})
		c.applied(resource.Get(c.Read(), kinds.Pods, "default", "p"), "ResourceClaimController")
		claim := resource.Clone(claims(c.Read())[0])
		claim.Finalizers = []string{resourcev1.Finalizer}
		if _, err := c.Update(c.t.Context(), kinds.ResourceClaims, claim, ""); err != nil {
			c.t.Fatal(err)
		}
		edit(c, kinds.ResourceClaims, "default", claim.Name, "status", func(rc *resourcev1.ResourceClaim) {
			rc.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d.example.com", Pool: "n", Device: "x"}}}}
			rc.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: pod.UID}}
		})
		make1(c, kinds.DeviceTaintRules, &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "burning"},
			Spec: resourcev1.DeviceTaintRuleSpec{
				DeviceSelector: &resourcev1.DeviceTaintSelector{}, Taint: resourcev1.DeviceTaint{Key: "burning",
					Effect: resourcev1.DeviceTaintEffectNoExecute}}})
		c.until("the pod is evicted, the claim with it", func(r resource.Reader) bool {
			return resource.Get(r, kinds.Pods, "default", "p") == nil && len(claims(r)) == 0
		})
		c.until("the rule says that it is done", func(r resource.Reader) bool {
			rule := resource.Get(r, kinds.DeviceTaintRules, "", "burning")
			return apimeta.IsStatusConditionFalse(rule.Status.Conditions, resourcev1.DeviceTaintConditionEvictionInProgress)
		})
	})
}

package controllers_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
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

// TestClaimsOfEndedPods: the claim that was made for a pod goes with the pod's end, of whatever sort; not while it starts again.
func TestClaimsOfEndedPods(t *testing.T) {
	for _, end := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodRunning} {
		for _, extended := range []bool{false, true} {
			t.Run(fmt.Sprint(end, " extended resources ", extended), func(t *testing.T) {
				simulate(t, 1, func(c *cluster) { claimOfEndedPod(c, end, extended) })
			})
		}
	}
}

func claimOfEndedPod(c *cluster, end corev1.PodPhase, extended bool) {
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}}}
	make1(c, kinds.ResourceClaimTemplates, &resourcev1.ResourceClaimTemplate{ObjectMeta: meta("gpu"),
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}})
	pod := &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} // no simulated node plays its part
	if extended {
		one := corev1.ResourceList{"example.com/gpu": apiresource.MustParse("1")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	} else {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: new("gpu")}}
	}
	pod = make1(c, kinds.Pods, pod)
	if extended { // the scheduler's part
		make1(c, kinds.ResourceClaims, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x",
			Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "p", UID: pod.UID, Controller: new(true)}}}, Spec: spec})
		edit(c, kinds.Pods, "default", "p", "status", func(p *corev1.Pod) {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "x",
				RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "r"}}}
		})
	}
	claims := func(r resource.Reader) []*resourcev1.ResourceClaim {
		return resource.List(r, kinds.ResourceClaims, "default")
	}
	c.until("there is a claim", func(r resource.Reader) bool { return len(claims(r)) == 1 })
	edit(c, kinds.ResourceClaims, "default", claims(c.Read())[0].Name, "status", func(rc *resourcev1.ResourceClaim) {
		rc.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d.example.com", Pool: "n", Device: "x"}}}}
		rc.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: pod.UID}}
	})
	edit(c, kinds.Pods, "default", "p", "status", func(p *corev1.Pod) {
		p.Status.Phase = end
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 1}}
	})
	if end != corev1.PodRunning {
		c.until("the claim is gone", func(r resource.Reader) bool { return len(claims(r)) == 0 })
		return
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	if list := claims(c.Read()); len(list) != 1 || list[0].Status.Allocation == nil || len(list[0].Status.ReservedFor) != 1 {
		c.t.Errorf("a pod that starts again has %+v", list)
	}
}

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

const gpuResource = `{metadata: {name: gpu}, spec: {extendedResourceName: example.com/gpu, ` +
	`selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}}`

// asking is a pod that asks for so many of a resource.
func asking(name, res string, n int64) *corev1.Pod {
	p, q := pod(name, "", "", ""), *apiresource.NewQuantity(n, apiresource.DecimalSI)
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceName(res): q},
		Limits: corev1.ResourceList{corev1.ResourceName(res): q}}
	return p
}

// special are the claims that were made for extended resources, by the pods' names.
func (w *world) special() map[string]*resourcev1.ResourceClaim {
	out := map[string]*resourcev1.ResourceClaim{}
	for _, c := range resource.List(w.Read(), kinds.ResourceClaims, "default") {
		if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
			out[metav1.GetControllerOf(c).Name] = c
		}
	}
	return out
}

func TestExtendedResources(t *testing.T) {
	w := start(t, true)
	w.create(node("n1", "", ""))
	w.create(node("n2", "", "")) // has devices
	w.gpus("n2", 3)
	w.create(asking("a", "example.com/gpu", 2))
	if said := find(w.until("a", refused), corev1.PodScheduled).Message; !strings.Contains(said, "2 Insufficient example.com/gpu") {
		t.Errorf("no class stands for it: %s", said)
	}
	made(w, &resourcev1.DeviceClass{}, gpuResource)
	p := w.until("a", bound)
	c := w.special()["a"]
	if p.Spec.NodeName != "n2" || c == nil || len(c.Status.Allocation.Devices.Results) != 2 || c.Status.ReservedFor[0].UID != p.UID ||
		!strings.HasPrefix(c.Name, "a-extended-resources-") {
		t.Fatalf("on %s with %+v", p.Spec.NodeName, c)
	}
	want := corev1.PodExtendedResourceClaimStatus{ResourceClaimName: c.Name, RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "container-0-request-0"}}}
	if got := p.Status.ExtendedResourceClaimStatus; got == nil || got.ResourceClaimName != want.ResourceClaimName ||
		!slices.Equal(got.RequestMappings, want.RequestMappings) {
		t.Errorf("it was told %+v", got)
	}
	w.create(asking("b", "example.com/gpu", 2))
	said := find(w.until("b", refused), corev1.PodScheduled).Message
	if !strings.Contains(said, "2 cannot allocate all claims. preemption: ") {
		t.Errorf("one is left: %s", said)
	}
	w.create(asking("c", "deviceclass.resource.kubernetes.io/gpu", 1)) // by the class's own name
	if p := w.until("c", bound); p.Spec.NodeName != "n2" || w.special()["c"] == nil {
		t.Errorf("on %s", p.Spec.NodeName)
	}
	w.create(asking("none", "example.com/gpu", 0))
	if w.until("none", bound); w.special()["none"] != nil {
		t.Errorf("a claim of nothing: %+v", w.special()["none"])
	}
	n3 := node("n3", "", "")
	n3.Status.Allocatable["example.com/gpu"] = apiresource.MustParse("2") // a device plugin's
	w.create(n3)
	if p := w.until("b", bound); p.Spec.NodeName != "n3" || w.special()["b"] != nil {
		t.Errorf("on %s, with %v", p.Spec.NodeName, w.special()["b"])
	}
}

// TestExtendedResourcesGoRoundOnce has many pods ask for fewer devices.
func TestExtendedResourcesGoRoundOnce(t *testing.T) {
	w := start(t, false)
	made(w, &resourcev1.DeviceClass{}, gpuResource)
	for i := range 3 {
		w.create(node(fmt.Sprintf("n%d", i), "", ""))
		w.gpus(fmt.Sprintf("n%d", i), 2)
	}
	for i := range 10 {
		w.create(asking(fmt.Sprintf("p%d", i), "example.com/gpu", 1))
	}
	w.schedule(t.Context())
	n, taken := 0, map[string]bool{}
	for i := range 10 {
		if bound(w.until(fmt.Sprintf("p%d", i), func(p *corev1.Pod) bool { return bound(p) || refused(p) })) {
			n++
		}
	}
	for _, c := range w.special() {
		for _, r := range c.Status.Allocation.Devices.Results {
			taken[r.Pool+"/"+r.Device] = true
		}
	}
	if n != 6 || len(taken) != 6 {
		t.Errorf("%d pods run, with %d devices of 6", n, len(taken))
	}
}

// TestExtendedClaimLeftBehind has a claim of a scheduler that ended before it bound the pod.
func TestExtendedClaimLeftBehind(t *testing.T) {
	w := start(t, false)
	made(w, &resourcev1.DeviceClass{}, gpuResource)
	w.create(node("n1", "", ""))
	w.gpus("n1", 1)
	p := w.create(asking("p", "example.com/gpu", 1)).(*corev1.Pod)
	old := made(w, &resourcev1.ResourceClaim{},
		`{metadata: {name: old, namespace: default, finalizers: [resource.kubernetes.io/delete-protection],
  annotations: {resource.kubernetes.io/extended-resource-claim: 'true'},
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: %s, controller: true}]},
    spec: {devices: {requests: [{name: container-0-request-0, exactly: {deviceClassName: gpu}}]}}}`, p.UID)
	old = resource.Clone(old)
	old.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "container-0-request-0", Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"}}}}
	if _, err := client.UpdateStatus(t.Context(), w, kinds.ResourceClaims, old); err != nil {
		t.Fatal(err)
	}
	w.schedule(t.Context())
	w.until("p", bound)
	if c := w.special()["p"]; c == nil || c.Name == "old" || w.now("old") != nil {
		t.Errorf("the pod has %v", c)
	}
}

func TestRequestsOf(t *testing.T) {
	const text = `{initContainers: [{name: first, resources: {requests: {cpu: 1, x.io/a: 3}}},
  {name: beside, restartPolicy: Always, resources: {requests: {x.io/a: 1}}},
  {name: second, resources: {requests: {x.io/a: 5}}}], containers: [{name: main, resources: {requests: {cpu: 1, x.io/a: 2,
    x.io/b: 1}}}, {name: idle}]}`
	p := &corev1.Pod{}
	must(yaml.UnmarshalStrict([]byte(text), &p.Spec))
	list, uses := requestsOf(p, []corev1.ResourceName{"x.io/b", "x.io/a"}, func(corev1.ResourceName) string { return "k" })
	got := ""
	for _, r := range list {
		got += fmt.Sprintf("%s=%d ", r.Name, r.Exactly.Count)
	}
	for _, u := range uses {
		got += fmt.Sprintf("\n%s %s %s", u.ContainerName, u.ResourceName, u.RequestName)
	}
	// The first needs what the two that last have; the second has but main's two, and three of its own.
	const want = `container-1-request-0=1 container-2-request-0=3 container-3-request-1=2 container-3-request-2=1 
beside x.io/a container-1-request-0
main x.io/a container-3-request-1
first x.io/a container-1-request-0
first x.io/a container-3-request-1
second x.io/a container-3-request-1
second x.io/a container-2-request-0
main x.io/b container-3-request-2`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

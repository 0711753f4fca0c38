package scheduler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// made creates what a YAML text says.
func made[T resource.Object](w *world, obj T, text string, args ...any) T {
	w.Helper()
	must(yaml.UnmarshalStrict([]byte(fmt.Sprintf(text, args...)), obj))
	return w.create(obj).(T)
}

// gpus gives a node n devices; the even ones are small.
func (w *world) gpus(node string, n int) {
	list := ""
	for i := range n {
		list += fmt.Sprintf("{name: gpu-%d, attributes: {size: {string: %s}}}, ", i, []string{"small", "large"}[i%2])
	}
	made(w, &resourcev1.ResourceSlice{},
		`{metadata: {name: %s}, spec: {driver: gpu.example.com, nodeName: %s, pool: {name: %s, resourceSliceCount: 1}, devices: [%s]}}`,
		node, node, node, list)
}

const gpuClass = `{metadata: {name: gpu}, spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}}`

func (w *world) gpuClaim(name, rest string) *resourcev1.ResourceClaim {
	return made(w, &resourcev1.ResourceClaim{},
		`{metadata: {name: %s, namespace: default}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu %s}}]}}}`, name, rest)
}

// wanting is a pod that uses a claim.
func wanting(name, claim string) *corev1.Pod {
	return pod(name, "", "", "resourceClaims: [{name: d, resourceClaimName: "+claim+"}]")
}

func (w *world) now(claim string) *resourcev1.ResourceClaim {
	return resource.Get(w.Read(), kinds.ResourceClaims, "default", claim)
}

func TestDevices(t *testing.T) {
	w := start(t, true)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	for _, n := range []string{"n1", "n2"} {
		w.create(node(n, "", ""))
	}
	w.gpus("n2", 2)
	w.gpuClaim("large", `, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].size == "large"'}}]`)
	w.create(wanting("a", "large"))
	if p := w.until("a", bound); p.Spec.NodeName != "n2" {
		t.Errorf("a pod that wants a device is on %s, without any", p.Spec.NodeName)
	}
	c := w.now("large")
	if r := c.Status.Allocation.Devices.Results; len(r) != 1 || r[0].Device != "gpu-1" || c.Status.ReservedFor[0].Name != "a" ||
		len(c.Finalizers) != 1 {
		t.Errorf("the claim is %+v", c)
	}
	w.create(wanting("b", "large")) // shares it
	if p := w.until("b", bound); p.Spec.NodeName != "n2" || len(w.now("large").Status.ReservedFor) != 2 {
		t.Errorf("one who shares is on %s, the claim reserved for %v", p.Spec.NodeName, w.now("large").Status.ReservedFor)
	}
	w.gpuClaim("second", `, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].size == "large"'}}]`)
	w.create(wanting("c", "second"))
	said := find(w.until("c", refused), corev1.PodScheduled).Message
	if !strings.Contains(said, "2 cannot allocate all claims") {
		t.Errorf("told: %s", said)
	}
	w.gpus("n1", 2) // and now there is another
	if p := w.until("c", bound); p.Spec.NodeName != "n1" {
		t.Errorf("is on %s", p.Spec.NodeName)
	}
	w.create(wanting("d", "later"))
	w.create(pod("after", "", "", "hostNetwork: false")) // d was looked at before it
	w.until("after", bound)
	if d := w.until("d", func(*corev1.Pod) bool { return true }); len(d.Status.Conditions) > 0 {
		t.Errorf("a pod whose claim is still to come is told of: %v", d.Status.Conditions)
	}
	w.gpuClaim("later", "")
	w.until("d", bound)
	w.gpuClaim("wrong", `, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].none == 1'}}]`)
	w.create(wanting("e", "wrong"))
	failed := func(p *corev1.Pod) bool {
		cond := find(p, corev1.PodScheduled)
		return cond != nil && cond.Reason == corev1.PodReasonSchedulerError
	}
	const claim = `running "DynamicResources" filter plugin: claim default/wrong: selector #0 on device `
	said = find(w.until("e", failed), corev1.PodScheduled).Message
	if !strings.HasPrefix(said, claim) || !strings.Contains(said, "no such key") {
		t.Errorf("told: %s", said)
	}
}

// TestDevicesGoRoundOnce has many claims at once want fewer devices: each device goes to one of them.
func TestDevicesGoRoundOnce(t *testing.T) {
	w := start(t, false)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	const nodes, each, pods = 3, 4, 20
	for i := range nodes {
		w.create(node(fmt.Sprintf("n%d", i), "", ""))
		w.gpus(fmt.Sprintf("n%d", i), each)
	}
	var wg sync.WaitGroup
	for i := range pods {
		wg.Go(func() {
			w.gpuClaim(fmt.Sprintf("c%d", i), "")
			w.create(wanting(fmt.Sprintf("p%d", i), fmt.Sprintf("c%d", i)))
		})
	}
	wg.Wait()
	w.schedule(t.Context())
	n := 0
	for i := range pods {
		if p := w.until(fmt.Sprintf("p%d", i), func(p *corev1.Pod) bool { return bound(p) || refused(p) }); bound(p) {
			n++
		}
	}
	taken := map[string]string{}
	for _, c := range resource.List(w.Read(), kinds.ResourceClaims, "default") {
		if c.Status.Allocation == nil {
			continue
		}
		r := c.Status.Allocation.Devices.Results[0]
		if other := taken[r.Pool+"/"+r.Device]; other != "" {
			t.Errorf("%s and %s have the same device", other, c.Name)
		}
		taken[r.Pool+"/"+r.Device] = c.Name
	}
	if n != nodes*each || len(taken) != nodes*each {
		t.Errorf("%d pods run, %d devices are taken, of %d", n, len(taken), nodes*each)
	}
}

func TestTaintedDevices(t *testing.T) {
	w := start(t, true)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	w.create(node("n1", "", ""))
	w.gpus("n1", 1)
	rule := made(w, &resourcev1.DeviceTaintRule{},
		`{metadata: {name: broken}, spec: {deviceSelector: {driver: gpu.example.com}, taint: {key: broken, effect: NoSchedule}}}`)
	w.gpuClaim("c", "")
	w.create(wanting("p", "c"))
	w.until("p", refused)
	w.gpuClaim("bold", `, tolerations: [{key: broken, operator: Exists}]`)
	w.create(wanting("q", "bold"))
	w.until("q", bound)
	if err := w.Delete(t.Context(), kinds.Pods, "default", "q", &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	free(t, w, "bold")
	if err := w.Delete(t.Context(), kinds.DeviceTaintRules, "", rule.Name, &metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("p", bound)
}

// free plays the loop that gives allocations back.
func free(t *testing.T, w *world, claim string) {
	t.Helper()
	next := resource.Clone(w.now(claim))
	next.Status = resourcev1.ResourceClaimStatus{}
	if _, err := client.UpdateStatus(t.Context(), w, kinds.ResourceClaims, next); err != nil {
		t.Fatal(err)
	}
}

// TestDevicesAreSurrendered has a claim's devices be where the pod can't be: they are given back for others.
func TestDevicesAreSurrendered(t *testing.T) {
	w := start(t, false)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	w.create(node("n1", "", "spec: {unschedulable: true}"))
	w.create(node("n2", "", ""))
	w.gpus("n1", 1)
	w.gpus("n2", 1)
	c := resource.Clone(w.gpuClaim("c", ""))
	c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}},
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r",
			Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"}}}}
	if _, err := client.UpdateStatus(t.Context(), w, kinds.ResourceClaims, c); err != nil {
		t.Fatal(err)
	}
	w.create(wanting("p", "c"))
	w.schedule(context.Background())
	if p := w.until("p", bound); p.Spec.NodeName != "n2" {
		t.Errorf("is on %s", p.Spec.NodeName)
	}
}

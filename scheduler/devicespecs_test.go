package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// slice is a pool of one node, with devices.
func (w *world) slice(node, devices string) {
	w.Helper()
	made(w, &resourcev1.ResourceSlice{}, `{metadata: {name: %[1]s}, spec: {driver: gpu.example.com, nodeName: %[1]s,
  pool: {name: %[1]s, resourceSliceCount: 1}, devices: [%[2]s]}}`, node, devices)
}

// deviceClaim is a claim of any devices.
func (w *world) deviceClaim(name, devices string) {
	w.Helper()
	made(w, &resourcev1.ResourceClaim{}, `{metadata: {name: %s, namespace: default}, spec: {devices: {%s}}}`, name, devices)
}

// gone ends a pod and plays the loop that gives its devices back.
func (w *world) gone(t *testing.T, name string) {
	t.Helper()
	if err := w.Delete(t.Context(), kinds.Pods, "default", name, &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	free(t, w, name)
}

// wants makes a pod with a claim of its name.
func (w *world) wants(name, devices string) {
	w.Helper()
	w.deviceClaim(name, devices)
	w.create(wanting(name, name))
}

// got names the devices of a claim.
func (w *world) got(name string) string {
	var list []string
	for _, r := range w.now(name).Status.Allocation.Devices.Results {
		list = append(list, r.Request+"="+r.Device)
	}
	return strings.Join(list, " ")
}

// TestDeviceClassComes has a pod wait for a device class, and then for one that takes the devices that there are.
func TestDeviceClassComes(t *testing.T) {
	w := start(t, true)
	w.create(node("n1", "", ""))
	w.gpus("n1", 1)
	w.wants("p", "requests: [{name: r, exactly: {deviceClassName: gpu}}]")
	w.until("p", refused)
	made(w, &resourcev1.DeviceClass{}, `{metadata: {name: gpu}, spec: {selectors: [{cel: {expression: 'false'}}]}}`)
	w.until("p", func(p *corev1.Pod) bool {
		return refused(p) && strings.Contains(find(p, corev1.PodScheduled).Message, "cannot allocate all claims")
	})
	w.patch(kinds.DeviceClasses, "gpu", "", `{"spec":{"selectors":[{"cel":{"expression":"true"}}]}}`)
	w.until("p", bound)
}

// TestPartsOfDevices gives out partitions of a device as long as it has enough of what they share.
func TestPartsOfDevices(t *testing.T) {
	w := start(t, true)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	w.create(node("n1", "", ""))
	const part = `{name: part-%d, attributes: {size: {string: %s}}, consumesCounters: [{counterSet: all, counters: {memory: {value: %s}}}]}`
	for i, spec := range []string{`sharedCounters: [{name: all, counters: {memory: {value: 10Gi}}}]`,
		`devices: [` + fmt.Sprintf(part, 0, "large", "8Gi") + `, ` + fmt.Sprintf(part, 1, "small", "4Gi") + `, ` + fmt.Sprintf(part, 2, "small",
			"4Gi") + `]`} {
		made(w, &resourcev1.ResourceSlice{}, `{metadata: {name: s-%d}, spec: {driver: gpu.example.com, nodeName: n1,
  pool: {name: n1, resourceSliceCount: 2}, %s}}`, i, spec)
	}
	const want = `requests: [{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: ` +
		`'device.attributes["gpu.example.com"].size == "%s"'}}]}}]`
	w.wants("a", fmt.Sprintf(want, "small"))
	w.until("a", bound)
	w.wants("b", fmt.Sprintf(want, "large"))
	w.until("b", refused)
	w.wants("c", fmt.Sprintf(want, "small"))
	w.until("c", bound)
	w.gone(t, "a")
	w.gone(t, "c")
	w.until("b", bound)
}

// TestShareOfADevice gives one device to several claims, as much of it as each asks for.
func TestShareOfADevice(t *testing.T) {
	w := start(t, true)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	w.create(node("n1", "", ""))
	w.slice("n1", `{name: d, allowMultipleAllocations: true, capacity: {memory: {value: 10Gi}}}`)
	const want = `requests: [{name: r, exactly: {deviceClassName: gpu, capacity: {requests: {memory: %s}}}}]`
	w.wants("a", fmt.Sprintf(want, "6Gi"))
	w.until("a", bound)
	w.wants("b", fmt.Sprintf(want, "6Gi"))
	w.until("b", refused)
	w.wants("c", fmt.Sprintf(want, "4Gi"))
	w.until("c", bound)
	ids := map[string]bool{}
	for _, name := range []string{"a", "c"} {
		r := w.now(name).Status.Allocation.Devices.Results[0]
		used := r.ConsumedCapacity["memory"]
		if r.ShareID == nil || used.String() != map[string]string{"a": "6Gi", "c": "4Gi"}[name] {
			t.Errorf("%s has %+v", name, r)
		} else {
			ids[string(*r.ShareID)] = true
		}
	}
	if len(ids) != 2 {
		t.Errorf("shares %v", ids)
	}
	w.gone(t, "a")
	w.until("b", bound)
}

// TestAdminsDevices gives an administrator all devices of a node, though others have them, and nothing that others lack then.
func TestAdminsDevices(t *testing.T) {
	w := start(t, true)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	w.create(node("n1", "", ""))
	w.gpus("n1", 2)
	w.patch(kinds.Namespaces, "default", "", `{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}`)
	w.wants("a", `requests: [{name: r, exactly: {deviceClassName: gpu}}]`)
	w.until("a", bound)
	w.wants("admin", `requests: [{name: r, exactly: {deviceClassName: gpu, adminAccess: true, allocationMode: All}}]`)
	if p := w.until("admin", func(p *corev1.Pod) bool { return bound(p) || refused(p) }); !bound(p) {
		t.Fatal(find(p, corev1.PodScheduled).Message)
	}
	if got := w.got("admin"); got != "r=gpu-0 r=gpu-1" {
		t.Errorf("the administrator has %s", got)
	}
	w.wants("b", `requests: [{name: r, exactly: {deviceClassName: gpu}}]`)
	w.until("b", bound)
	w.wants("c", `requests: [{name: r, exactly: {deviceClassName: gpu}}]`)
	w.until("c", refused)
}

// TestChosenAlternative takes the first alternative that can be had together with what else the claim asks for, and its configuration.
func TestChosenAlternative(t *testing.T) {
	w := start(t, true)
	made(w, &resourcev1.DeviceClass{}, gpuClass)
	w.create(node("n1", "", ""))
	const device = `{name: %s, attributes: {size: {string: %s}, board: {string: %s}}}`
	w.slice("n1", fmt.Sprintf(device, "a", "large", "one")+", "+fmt.Sprintf(device, "b", "small", "two")+", "+
		fmt.Sprintf(device, "c", "tiny", "two"))
	const size = `selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].size == "%s"'}}]`
	const config = `{requests: [%[1]s], opaque: {driver: gpu.example.com, parameters: {kind: %[2]s}}}`
	w.wants("p", `requests: [{name: r, firstAvailable: [{name: best, deviceClassName: gpu, `+fmt.Sprintf(size, "large")+`},
  {name: good, deviceClassName: gpu, `+fmt.Sprintf(size, "small")+`}]}, {name: other, exactly: {deviceClassName: gpu, `+
		fmt.Sprintf(size, "tiny")+`}}], constraints: [{requests: [r, other], matchAttribute: gpu.example.com/board}],
  config: [`+fmt.Sprintf(config, "r/best", "best")+`, `+fmt.Sprintf(config, "r/good", "good")+`, `+
		fmt.Sprintf(config, "other", "other")+`]`)
	w.until("p", bound)
	if got := w.got("p"); got != "r/good=b other=c" {
		t.Errorf("it has %s", got)
	}
	var told []string
	for _, c := range w.now("p").Status.Allocation.Devices.Config {
		told = append(told, strings.Join(c.Requests, " ")+":"+string(c.Opaque.Parameters.Raw))
	}
	if got := strings.Join(told, " "); got != `r/good:{"kind":"good"} other:{"kind":"other"}` {
		t.Errorf("configured with %s", got)
	}
}

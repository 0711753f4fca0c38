//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/kloop-dev/kloop/test/deviceplugin"
	"github.com/kloop-dev/kloop/test/dradriver"
)

// agentRoot is the root directory of the first node's agent.
func agentRoot() string { return filepath.Join(it.dir, "one", "node") }

// A container gets the device that a device plugin brought, and reads of it.
func TestDevicePlugin(t *testing.T) {
	ns := space(t)
	p := &deviceplugin.Plugin{Dir: filepath.Join(agentRoot(), "device-plugins"), Resource: "e2e.example.com/thing"}
	if err := p.Start(t.Context(), deviceplugin.Devices("thing0", "thing1")...); err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	apply(t, ns, onePod("p", `ls -l /dev/thing0; echo "has $DEVICES"; sleep 1000`, "", "resources: {limits: {e2e.example.com/thing: 1}}"))
	reaches(t, ns, "p", corev1.PodRunning)
	if out := logged(t, ns, "p", "has "); !strings.Contains(out, "has thing0") || !strings.Contains(out, "crw") {
		t.Errorf("the container says %s", out)
	}
	apply(t, ns, onePod("q", "sleep 1000", "", "resources: {limits: {e2e.example.com/thing: 2}}"))
	eventually(t, "q waits for a node that has two", func() (bool, string) {
		c := getPod(t, ns, "q").Status.Conditions
		return slices.ContainsFunc(c, func(c corev1.PodCondition) bool {
			return strings.Contains(c.Message, "Insufficient e2e.example.com/thing")
		}), ""
	})
}

// A claim made of a template is allocated by the scheduler, prepared by a driver, given by CDI, and taken back.
func TestClaimedDevice(t *testing.T) {
	ns := space(t)
	const name = "e2e.gpu.example.com"
	cdi := filepath.Join("/var/run/cdi", name+".json")
	if err := os.MkdirAll(filepath.Dir(cdi), 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(cdi)
	spec := `{"cdiVersion": "0.5.0", "kind": "` + name + `/gpu", "devices": [{"name": "gpu0", "containerEdits": {"env": ["GPU=gpu0"]}}]}`
	if err := os.WriteFile(cdi, []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	d := &dradriver.Driver{Root: agentRoot(), Name: name, Devices: func(*drav1.Claim) []*drav1.Device {
		return []*drav1.Device{{PoolName: "one", DeviceName: "gpu0", CdiDeviceIds: []string{name + "/gpu=gpu0"}}}
	}}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	defer d.Stop()
	apply(t, ns, `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: `+name+`}
spec: {selectors: [{cel: {expression: device.driver == "`+name+`"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: `+name+`}
spec: {nodeName: one, driver: `+name+`, pool: {name: one, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu0}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: `+name+`}}]}}}
`)
	apply(t, ns, onePod("p", `echo "has $GPU"; sleep 1000`, "resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]",
		"resources: {claims: [{name: gpu}]}"))
	old := "it takes 1.7 or newer"
	eventually(t, "the container runs, or is told why it can't", func() (bool, string) {
		p := getPod(t, ns, "p")
		waits := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Waiting != nil && strings.Contains(c.State.Waiting.Message, old)
		})
		return waits || p.Status.Phase == corev1.PodRunning, p.String()
	})
	if getPod(t, ns, "p").Status.Phase == corev1.PodRunning {
		logged(t, ns, "p", "has gpu0")
	}
	if _, err := it.try("delete", "pod", "-n", ns, "p"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the driver has taken it back", func() (bool, string) {
		calls := d.Calls()
		return len(calls) == 2 && strings.HasPrefix(calls[0], "prepare ") && strings.HasPrefix(calls[1], "unprepare "), strings.Join(calls, ", ")
	})
}

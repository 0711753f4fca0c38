package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/topology"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/deviceplugin"
)

const gpu = "example.com/gpu"

// gpus makes a pod's first container ask for so many devices.
func gpus(n int64) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		q := corev1.ResourceList{gpu: *apiresource.NewQuantity(n, apiresource.DecimalSI)}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: q, Limits: q}
	}
}

func (r *rig) plugin(names ...string) *deviceplugin.Plugin {
	r.t.Helper()
	dir := filepath.Join(r.cfg.Dir, "device-plugins")
	r.until("the agent listens", func() bool { _, err := os.Stat(filepath.Join(dir, "kubelet.sock")); return err == nil })
	p := &deviceplugin.Plugin{Dir: dir, Resource: gpu, Options: &pluginv1.DevicePluginOptions{PreStartRequired: true}}
	if err := p.Start(r.t.Context(), deviceplugin.Devices(names...)...); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Stop)
	return p
}

// counts waits until the Node shows so many devices.
func (r *rig) counts(capacity, allocatable int64) {
	r.t.Helper()
	r.until("the Node counts devices", func() bool {
		n := resource.Get(r.Read(), kinds.Nodes, "", "n")
		if n == nil {
			return false
		}
		c, a := n.Status.Capacity[gpu], n.Status.Allocatable[gpu]
		return c.Value() == capacity && a.Value() == allocatable
	})
}

// health tells the health of the first container's devices.
func (r *rig) health(name string) string {
	var list []string
	for _, st := range r.get(name).Status.ContainerStatuses[0].AllocatedResourcesStatus {
		for _, d := range st.Resources {
			list = append(list, string(st.Name)+" "+string(d.ResourceID)+" "+string(d.Health))
		}
	}
	return strings.Join(list, ", ")
}

func TestDevicesOfPods(t *testing.T) {
	live(t, func(r *rig) {
		p := r.plugin("a", "b")
		r.counts(2, 2)
		r.pod("one", gpus(1), "c")
		r.reaches("one", corev1.PodRunning)
		conf := r.rt.newest("c")
		if len(conf.Devices) != 1 || conf.Devices[0].ContainerPath != "/dev/a" || conf.Annotations[gpu] != "a" ||
			string(conf.Envs[len(conf.Envs)-1].Value) != "a" {
			t.Errorf("the container is made as %+v", conf)
		}
		if got := strings.Join(p.Calls(), " "); got != "Allocate a PreStart a" {
			t.Errorf("the plugin was asked %s", got)
		}
		r.pod("big", gpus(2), "c")
		st := r.reaches("big", corev1.PodFailed).Status
		if want := "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/gpu. Requested: 2, " +
			"Available: 1, which is unexpected"; st.Reason != "UnexpectedAdmissionError" || st.Message != want {
			t.Errorf("the second is refused by %s: %s", st.Reason, st.Message)
		}
		if r.until("the health is told", func() bool { return r.health("one") != "" }); r.health("one") != gpu+" a Healthy" {
			t.Errorf("health is %s", r.health("one"))
		}
		p.Set(deviceplugin.Devices("!a", "b")...)
		r.counts(2, 1)
		r.until("the device is told to be unhealthy", func() bool { return r.health("one") == gpu+" a Unhealthy" })
		p.Stop()
		r.counts(2, 0)
		r.until("nobody knows the device's health", func() bool { return r.health("one") == gpu+" a Unknown" })
		r.stop()
		r.start()
		r.plugin("a", "b")
		r.counts(2, 2)
		r.pod("two", gpus(1), "d")
		r.reaches("two", corev1.PodRunning)
		if conf := r.rt.newest("d"); conf.Devices[0].ContainerPath != "/dev/b" {
			t.Errorf("after the agent's restart the next pod gets %+v", conf.Devices)
		}
		if n, _ := r.rt.count(); n != 2 {
			t.Errorf("%d containers", n)
		}
	})
}

// TestDevicesOfEndedPods: as soon as a pod has ended, the next one gets what it had.
func TestDevicesOfEndedPods(t *testing.T) {
	live(t, func(r *rig) {
		r.plugin("a")
		r.counts(1, 1)
		for range 5 {
			r.pod("job", func(p *corev1.Pod) { gpus(1)(p); p.Spec.RestartPolicy = corev1.RestartPolicyNever }, "c")
			r.reaches("job", corev1.PodRunning)
			r.rt.exit("c", 0)
			r.reaches("job", corev1.PodSucceeded)
			r.pod("next", gpus(1), "n")
			r.reaches("next", corev1.PodRunning)
			if r.health("job") == "" {
				t.Error("what the ended pod had is told no more")
			}
			for _, name := range []string{"job", "next"} {
				if err := r.Delete(t.Context(), kinds.Pods, "d", name, nil); err != nil {
					t.Fatal(err)
				}
				r.until(name+" is gone", func() bool { return r.get(name) == nil })
			}
		}
	})
}

// TestBrokenPluginRefusesPods: what a plugin fails at is the pod's end, and what was chosen is free again.
func TestBrokenPluginRefusesPods(t *testing.T) {
	live(t, func(r *rig) {
		p := r.plugin("a")
		r.counts(1, 1)
		p.Break(errors.New("it burns"))
		r.pod("one", gpus(1), "c")
		if st := r.reaches("one", corev1.PodFailed).Status; st.Reason != "UnexpectedAdmissionError" || !strings.Contains(st.Message, "it burns") {
			t.Errorf("refused by %s: %s", st.Reason, st.Message)
		}
		p.Break(nil)
		r.pod("two", gpus(1), "c")
		r.reaches("two", corev1.PodRunning)
	})
}

// sysTree writes two NUMA nodes of two cores each, as sysfs shows them: node 0 has CPUs 0 and 1.
func sysTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"cpu/online": "0-3"}
	for n, cpus := range []string{"0-1", "2-3"} {
		at := fmt.Sprintf("node/node%d/", n)
		files[at+"cpulist"], files[at+"meminfo"] = cpus, fmt.Sprintf("Node %d MemTotal: 8388608 kB", n)
	}
	for i := range 4 {
		files[fmt.Sprintf("cpu/cpu%d/topology/physical_package_id", i)] = strconv.Itoa(i / 2)
	}
	for name, text := range files {
		path := filepath.Join(dir, "devices/system", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// alone makes a pod whose first container has CPUs for itself.
func alone(cpus string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		q := corev1.ResourceList{"cpu": apiresource.MustParse(cpus), "memory": apiresource.MustParse("64Mi")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: q, Limits: q}
	}
}

// runsOn tells the CPUs on which the newest container of the name runs, as the runtime was told last.
func (r *rig) runsOn(name string) string {
	r.rt.mu.Lock()
	defer r.rt.mu.Unlock()
	var id string
	for i, c := range r.rt.list {
		if c.Metadata.Name == name && c.State == cri.ContainerState_CONTAINER_RUNNING {
			id = i
		}
	}
	if id == "" {
		return "none"
	}
	on := r.rt.configs[id].Linux.Resources.CpusetCpus
	for _, u := range r.rt.updates {
		if u.ContainerId == id && u.Linux.CpusetCpus != "" {
			on = u.Linux.CpusetCpus
		}
	}
	return on
}

func TestExclusiveCPUs(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.cfg.Sys = sysTree(r.t)
		r.cfg.Topology = topology.Settings{StaticCPUs: true, StaticMemory: true, ReservedCPUs: "0", Policy: topology.SingleNUMA}
		r.start()
		on := func(name, want string) {
			t.Helper()
			r.until(name+" runs on "+want, func() bool { return r.runsOn(name) == want })
		}
		r.pod("shares", nil, "s")
		on("s", "0-3")
		r.pod("two", alone("2"), "t")
		on("t", "2-3")
		on("s", "0-1")
		res := r.rt.newest("t").Linux.Resources
		if res.CpuQuota != -1 || res.CpusetMems != "1" {
			t.Errorf("the one that is alone has quota %d and memory of nodes %s", res.CpuQuota, res.CpusetMems)
		}
		r.pod("more", alone("2"), "m")
		if st := r.reaches("more", corev1.PodFailed).Status; st.Reason != "TopologyAffinityError" ||
			st.Message != "Pod was rejected: Resources cannot be allocated with Topology locality" {
			t.Errorf("refused by %s: %s", st.Reason, st.Message)
		}
		r.stop()
		r.rt.updates = nil
		r.start()
		r.rests(time.Minute)
		on("t", "2-3")
		on("s", "0-1")
		r.pod("one", alone("1"), "o")
		on("o", "1")
		on("s", "0")
		for _, name := range []string{"two", "one"} {
			if err := r.Delete(r.t.Context(), kinds.Pods, "d", name, nil); err != nil {
				t.Fatal(err)
			}
		}
		on("s", "0-3")
		r.pod("three", alone("2"), "t3")
		on("t3", "2-3")
		r.stop()
		r.cfg.Topology = topology.Settings{}
		r.start()
		on("t3", "0-3") // nobody chooses CPUs any more
		on("s", "0-3")
	})
}

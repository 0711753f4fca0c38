package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/pressure"
	"github.com/kloop-dev/kloop/resource"
)

// amounts reads "cpu=1 memory=2Gi".
func amounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, f := range strings.Fields(text) {
		name, q, _ := strings.Cut(f, "=")
		list[corev1.ResourceName(name)] = apiresource.MustParse(q)
	}
	return list
}

func TestSpare(t *testing.T) {
	const machine = "cpu=4 memory=8Gi ephemeral-storage=100Gi pods=110 hugepages-2Mi=1Gi"
	for _, c := range []struct {
		name string
		is   Resources
		hard string
		want string
	}{
		{"nothing reserved", Resources{}, "none", "cpu=4 memory=7Gi ephemeral-storage=100Gi pods=110 hugepages-2Mi=1Gi"},
		{"both lists", Resources{SystemReserved: amounts("cpu=500m memory=1Gi"), KubeReserved: amounts("cpu=500m ephemeral-storage=10Gi")},
			"none", "cpu=3 memory=6Gi ephemeral-storage=90Gi pods=110 hugepages-2Mi=1Gi"},
		{"thresholds", Resources{SystemReserved: amounts("memory=1Gi")}, "memory.available<1Gi,nodefs.available<10%,pid.available<5%",
			"cpu=4 memory=5Gi ephemeral-storage=90Gi pods=110 hugepages-2Mi=1Gi"},
		{"named CPUs", Resources{SystemReserved: amounts("cpu=100m"), ReservedSystemCPUs: "0,2-3"}, "none",
			"cpu=1 memory=7Gi ephemeral-storage=100Gi pods=110 hugepages-2Mi=1Gi"},
		{"too much", Resources{KubeReserved: amounts("cpu=9 memory=9Gi")}, "none",
			"cpu=0 memory=0 ephemeral-storage=100Gi pods=110 hugepages-2Mi=1Gi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hard, err := pressure.Parse(c.hard)
			if err != nil {
				t.Fatal(err)
			}
			got := spare(amounts(machine), c.is.reserved(), hard)
			for name, want := range amounts(c.want) {
				if q := got[name]; q.Cmp(want) != 0 {
					t.Errorf("%s: %s is %s, want %s", c.name, name, q.String(), want.String())
				}
			}
		})
	}
}

func TestHugePages(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]string{"hugepages-2048kB": "512\n", "hugepages-1048576kB": "0\n"} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, "nr_hugepages"), []byte(n), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	got := hugePages(dir)
	if q := got["hugepages-2Mi"]; len(got) != 2 || q.String() != "1Gi" {
		t.Errorf("%v", got)
	}
	for size, want := range map[int64]string{64 << 10: "64KB", 2 << 20: "2MB", 1 << 30: "1GB"} {
		if n := hugeName(size); n != want {
			t.Errorf("%d: %s, want %s", size, n, want)
		}
	}
	if len(hugePages(filepath.Join(dir, "none"))) != 0 {
		t.Error("a kernel without huge pages has some")
	}
}

// memoryPod requests and limits the memory of one container.
func memoryPod(class corev1.PodQOSClass, request, limit string) *corev1.Pod {
	p := testPod(corev1.RestartPolicyAlways, "", "a")
	p.Status.QOSClass = class
	r := &p.Spec.Containers[0].Resources
	if request != "" {
		r.Requests = amounts("memory=" + request)
	}
	if limit != "" {
		r.Limits = amounts("memory=" + limit)
	}
	return p
}

// What becomes of a container's memory with cgroup version 2.
func TestUnifiedMemory(t *testing.T) {
	tiered := Resources{TieredReservation: true, MemoryThrottlingFactor: 0.5, LimitedSwap: true}
	for _, c := range []struct {
		name                     string
		node                     Resources
		class                    corev1.PodQOSClass
		request, limit           string
		minimum, low, high, swap string
	}{
		{"untuned", Resources{}, corev1.PodQOSBurstable, "1Gi", "2Gi", "0", "0", "max", "0"},
		{"guaranteed", tiered, corev1.PodQOSGuaranteed, "1Gi", "1Gi", "1073741824", "0", "max", "0"},
		{"burstable", tiered, corev1.PodQOSBurstable, "1Gi", "2Gi", "0", "1073741824", "1610612736", "134217728"},
		{"no limit", tiered, corev1.PodQOSBurstable, "2Gi", "", "0", "2147483648", "3221225472", "268435456"},
		{"limit as request", tiered, corev1.PodQOSBurstable, "1Gi", "1Gi", "0", "1073741824", "max", "0"},
		{"best effort", tiered, corev1.PodQOSBestEffort, "", "", "0", "0", "2147483648", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := terms{Resources: c.node, unified: true, memory: 8 << 30, swap: 1 << 30, allocatable: 4 << 30}
			p := memoryPod(c.class, c.request, c.limit)
			got := on.container(p, &p.Spec.Containers[0]).Unified
			for file, want := range map[string]string{"memory.min": c.minimum, "memory.low": c.low, "memory.high": c.high,
				"memory.swap.max": c.swap, "memory.oom.group": "1"} {
				if got[file] != want {
					t.Errorf("%s: %s is %s, want %s", c.name, file, got[file], want)
				}
			}
		})
	}
	old := memoryPod(corev1.PodQOSBurstable, "1Gi", "2Gi")
	r := terms{Resources: tiered, swap: 1 << 30}.container(old, &old.Spec.Containers[0])
	if len(r.Unified) != 0 || r.MemorySwapLimitInBytes != r.MemoryLimitInBytes {
		t.Errorf("with version 1: %v", r)
	}
}

func TestPodTerms(t *testing.T) {
	p := memoryPod(corev1.PodQOSBurstable, "1Gi", "2Gi")
	p.Spec.Containers[0].Resources.Limits["hugepages-2Mi"] = apiresource.MustParse("4Mi")
	v := terms{Resources: Resources{PodPidsLimit: 100}, pages: []int64{2 << 20, 1 << 30}}.pod(p)
	if *v.Pids != 100 || v.Huge["2MB"] != 4<<20 || v.Huge["1GB"] != 0 || len(v.Huge) != 2 || v.Min != nil {
		t.Errorf("%+v", v)
	}
	v = terms{unified: true}.pod(p)
	if v.Pids != nil || *v.Min != 0 || *v.Low != 0 || *v.High != -1 {
		t.Errorf("untuned: %+v", v)
	}
}

// The groups above the pods' own weigh the classes by what their pods request.
func TestCommonGroups(t *testing.T) {
	burstable, guaranteed := memoryPod(corev1.PodQOSBurstable, "1Gi", "2Gi"), memoryPod(corev1.PodQOSGuaranteed, "3Gi", "3Gi")
	burstable.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = apiresource.MustParse("500m")
	on := terms{unified: true, Resources: Resources{TieredReservation: true}}
	list := on.common([]*corev1.Pod{burstable, burstable, guaranteed}, amounts("cpu=3500m memory=6Gi pid=1000"))
	all, mid, least := list[0].values, list[1].values, list[2].values
	if *all.Shares != 3584 || *all.Memory != 6<<30 || *all.Pids != 1000 || *all.Min != 3<<30 || *all.Low != 2<<30 {
		t.Errorf("all: %+v", all)
	}
	if *mid.Shares != 1024 || *mid.Low != 2<<30 || mid.Memory != nil || *least.Shares != 2 {
		t.Errorf("burstable %+v, best effort %+v", mid, least)
	}
}

func TestOOMScore(t *testing.T) {
	const gib, all = 1 << 30, 10 << 30
	p := testPod(corev1.RestartPolicyAlways, "s+", "a", "b")
	for i, q := range []string{"1Gi", "4Gi"} {
		p.Spec.Containers[i].Resources.Requests = amounts("memory=" + q)
	}
	side := &p.Spec.InitContainers[0]
	for i, want := range []int64{900, 600} {
		if got := burstableScore(p, &p.Spec.Containers[i], all); got != want {
			t.Errorf("container %d: %d, want %d", i, got, want)
		}
	}
	if got := burstableScore(p, side, all); got != 600 {
		t.Errorf("a sidecar has %d: it may be killed before a main container", got)
	}
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("memory=8Gi")}
	if got := burstableScore(p, &p.Spec.Containers[0], all); got != 800 {
		t.Errorf("with 3 GiB for the pod as a whole: %d, want 800", got)
	}
	p.Spec.PriorityClassName, p.Spec.Priority, p.Status.QOSClass = "system-node-critical", new(int32(2000001000)), corev1.PodQOSBurstable
	if got := oomScore(p, side); got != -997 {
		t.Errorf("of a pod that the node can't do without: %d", got)
	}
}

// The Node tells what pods can have, and admission holds pods to it.
func TestReservedIsNotGiven(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		r.cfg.Resources = Resources{SystemReserved: amounts("memory=1Gi cpu=100m")}
		r.start()
		var n *corev1.Node
		r.until("the Node tells of it", func() bool {
			n = resource.Get(r.Read(), kinds.Nodes, "", "n")
			return n != nil && n.Status.Allocatable.Memory().Cmp(*n.Status.Capacity.Memory()) < 0
		})
		left := n.Status.Capacity.Memory().DeepCopy()
		left.Sub(apiresource.MustParse("1Gi"))
		if n.Status.Allocatable.Memory().Cmp(left) != 0 {
			t.Errorf("%v of %v", n.Status.Allocatable, n.Status.Capacity)
		}
		r.pod("p", func(p *corev1.Pod) {
			left.Add(apiresource.MustParse("1Mi"))
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: left}
		}, "a")
		if p := r.reaches("p", corev1.PodFailed); p.Status.Reason != "OutOfmemory" {
			t.Errorf("%+v", p.Status)
		}
	})
}

// cgroups makes two hierarchies of version 1, as far as files go.
func cgroups(t *testing.T, root string) {
	t.Helper()
	for _, h := range []string{"cpu", "memory"} {
		if err := os.MkdirAll(filepath.Join(root, h), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, h, "cgroup.procs"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Both groups of classes are there before their pods, and follow them.
func TestEnforced(t *testing.T) {
	simulate(t, func(r *rig) {
		r.stop()
		cgroups(t, r.cfg.CgroupRoot)
		r.start()
		shares := func(group string) string {
			return firstLine(filepath.Join(r.cfg.CgroupRoot, "cpu/kubepods", group, "cpu.shares"))
		}
		r.until("the classes are weighed", func() bool { return shares("burstable") == "2" && shares("besteffort") == "2" })
		if firstLine(filepath.Join(r.cfg.CgroupRoot, "memory/kubepods/memory.limit_in_bytes")) == "" {
			t.Error("the pods as a whole have no limit of memory")
		}
		r.pod("p", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("cpu=500m") }, "a")
		r.reaches("p", corev1.PodRunning)
		r.rests(5 * time.Second)
		if got := shares("burstable"); got != "512" {
			t.Errorf("burstable pods have %s shares", got)
		}
	})
}

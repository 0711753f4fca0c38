package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func (f *fakeRuntime) ContainerStats(_ context.Context, r *cri.ContainerStatsRequest,
	_ ...grpc.CallOption) (*cri.ContainerStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &cri.ContainerStatsResponse{Stats: &cri.ContainerStats{
		Memory: &cri.MemoryUsage{WorkingSetBytes: &cri.UInt64Value{Value: f.used}}}}, nil
}

// asks sets the requests of a pod's first container, and twice as much as its limits.
func asks(p *corev1.Pod, cpu, memory int64) {
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: quantities("cpu", fmt.Sprint(cpu, "m"), "memory", fmt.Sprint(memory, "Mi")),
		Limits:   quantities("cpu", fmt.Sprint(2*cpu, "m"), "memory", fmt.Sprint(2*memory, "Mi"))}
}

func (r *rig) resize(name string, cpu, memory int64) {
	r.t.Helper()
	next := resource.Clone(r.get(name))
	asks(next, cpu, memory)
	if _, err := r.Update(r.t.Context(), kinds.Pods, next, "resize"); err != nil {
		r.t.Fatal(err)
	}
}

func condition(p *corev1.Pod, typ corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == typ {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// resized says that the pod has what it asks for, and that nothing is under way.
func resized(p *corev1.Pod, cpu string) bool {
	s := p.Status.ContainerStatuses[0]
	return s.Resources != nil && s.Resources.Requests.Cpu().String() == cpu && s.AllocatedResources.Cpu().String() == cpu &&
		condition(p, corev1.PodResizePending) == nil && condition(p, corev1.PodResizeInProgress) == nil
}

func TestResizeInPlace(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) { asks(p, 100, 64) }, "a")
		r.reaches("p", corev1.PodRunning)
		r.resize("p", 200, 128)
		r.until("it is resized", func() bool { return resized(r.get("p"), "200m") })
		if n := len(r.rt.updated()); n != 1 {
			t.Fatalf("%d updates, want 1", n)
		}
		u := r.rt.updated()[0].Linux
		if u.CpuShares != 204 || u.CpuQuota != 40000 || u.MemoryLimitInBytes != 256<<20 {
			t.Errorf("the runtime was given %v", u)
		}
		if p := r.get("p"); p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("it was restarted: %+v", p.Status)
		}
		if got := r.events("p"); got != "Created Pulled ResizeCompleted ResizeStarted Started" {
			t.Errorf("events: %s", got)
		}
		// An agent that starts anew touches nothing.
		rev := r.get("p").ResourceVersion
		r.stop()
		r.start()
		r.rests(time.Minute)
		if now := r.get("p").ResourceVersion; now != rev || len(r.rt.updated()) != 1 {
			t.Errorf("after a restart of the agent: written %v, %d updates", now != rev, len(r.rt.updated()))
		}
	})
}

func TestResizeByRestart(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			asks(p, 100, 64)
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU,
				RestartPolicy: corev1.RestartContainer}}
		}, "a")
		r.reaches("p", corev1.PodRunning)
		r.resize("p", 200, 64)
		r.until("it is resized", func() bool { return resized(r.get("p"), "200m") })
		p := r.get("p")
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != 1 || s.State.Running == nil || len(r.rt.updated()) != 0 {
			t.Errorf("%d updates: %+v", len(r.rt.updated()), s)
		}
		if u := r.rt.newest("a").Linux.Resources; u.CpuShares != 204 {
			t.Errorf("the new container has %v", u)
		}
	})
}

// The pod's own cgroup has room for a container that restarts to be resized before it starts, and no more than that after: the kernel
// refuses a container more than its pod.
func TestResizeByRestartFits(t *testing.T) {
	for _, next := range []int64{50, 400} {
		t.Run(fmt.Sprintf("to %dm", next), func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.stop()
				cgroups(t, r.cfg.CgroupRoot)
				r.start()
				r.pod("p", func(p *corev1.Pod) {
					asks(p, 100, 64)
					p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU,
						RestartPolicy: corev1.RestartContainer}}
					other := p.Spec.Containers[0].DeepCopy()
					other.Name, other.ResizePolicy = "b", nil
					p.Spec.Containers = append(p.Spec.Containers, *other)
				}, "a")
				r.reaches("p", corev1.PodRunning)
				quota := func() int64 {
					n, _ := strconv.ParseInt(firstLine(filepath.Join(r.cfg.CgroupRoot, "cpu/kubepods/burstable/pod"+string(r.get("p").UID),
						"cpu.cfs_quota_us")), 10, 64)
					return n
				}
				if quota() != 40000 {
					t.Fatalf("the pod has %d", quota())
				}
				r.rt.mu.Lock()
				r.rt.fits = func(want int64) error {
					if has := quota(); want > has {
						return fmt.Errorf("write %d: invalid argument, the pod has %d", want, has)
					}
					return nil
				}
				r.rt.mu.Unlock()
				r.resize("p", next, 64)
				r.until("a is resized", func() bool { return resized(r.get("p"), fmt.Sprint(next, "m")) })
				r.rests(5 * time.Second)
				if n := r.get("p").Status.ContainerStatuses[0].RestartCount; n != 1 {
					t.Errorf("a restarted %d times", n)
				}
				if want := (2*next + 200) * 100; quota() != want {
					t.Errorf("the pod has %d, want %d", quota(), want)
				}
			})
		})
	}
}

// A resize that finds no room waits for it, and until then the pod has what it had.
func TestResizeDeferred(t *testing.T) {
	simulate(t, func(r *rig) {
		r.until("the node is there", func() bool { return resource.Get(r.Read(), kinds.Nodes, "", "n") != nil })
		all := r.agent.allocatable()[corev1.ResourceCPU]
		r.pod("p", func(p *corev1.Pod) { asks(p, 100, 64) }, "a")
		r.pod("other", func(p *corev1.Pod) { asks(p, all.MilliValue()-200, 64) }, "a")
		r.reaches("p", corev1.PodRunning)
		r.reaches("other", corev1.PodRunning)
		r.resize("p", 300, 64)
		r.until("it waits", func() bool { return condition(r.get("p"), corev1.PodResizePending) != nil })
		p := r.get("p")
		c := condition(p, corev1.PodResizePending)
		if c.Reason != corev1.PodReasonDeferred || c.ObservedGeneration != p.Generation || c.LastProbeTime.IsZero() {
			t.Errorf("%+v", c)
		}
		r.rests(time.Minute)
		if now := condition(r.get("p"), corev1.PodResizePending); now.LastProbeTime != c.LastProbeTime {
			t.Errorf("a minute later it reads %+v", now)
		}
		if got := p.Status.ContainerStatuses[0].AllocatedResources.Cpu().String(); got != "100m" {
			t.Errorf("it was granted %s", got)
		}
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "other", nil); err != nil {
			t.Fatal(err)
		}
		r.until("it is resized", func() bool { return resized(r.get("p"), "300m") })
	})
}

// Memory that is in use is not taken away.
func TestResizeBelowUse(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) { asks(p, 100, 64) }, "a")
		r.reaches("p", corev1.PodRunning)
		r.rt.mu.Lock()
		r.rt.used = 100 << 20
		r.rt.mu.Unlock()
		r.resize("p", 100, 32)
		r.until("it fails", func() bool {
			c := condition(r.get("p"), corev1.PodResizeInProgress)
			return c != nil && c.Reason == corev1.PodReasonError
		})
		if len(r.rt.updated()) != 0 {
			t.Errorf("the runtime was given %v", r.rt.updated())
		}
		r.rt.mu.Lock()
		r.rt.used = 10 << 20
		r.rt.mu.Unlock()
		r.until("it is resized", func() bool { return resized(r.get("p"), "100m") && len(r.rt.updated()) == 1 })
	})
}

// What the pod has as a whole changes too, and with it what containers have that have no limit of their own (KEP-5419).
func TestResizeWhole(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities("cpu", "100m"), Limits: quantities("cpu", "200m", "memory", "64Mi")}
		}, "a")
		r.reaches("p", corev1.PodRunning)
		resize := func(cpu, memory string) {
			next := resource.Clone(r.get("p"))
			next.Spec.Resources.Limits = quantities("cpu", cpu, "memory", memory)
			if _, err := r.Update(r.t.Context(), kinds.Pods, next, "resize"); err != nil {
				t.Fatal(err)
			}
		}
		resize("400m", "128Mi")
		r.until("it is resized", func() bool {
			return len(r.rt.updated()) == 1 && condition(r.get("p"), corev1.PodResizeInProgress) == nil
		})
		if u := r.rt.updated()[0].Linux; u.CpuQuota != 40000 || u.MemoryLimitInBytes != 128<<20 {
			t.Errorf("the runtime was given %v", u)
		}
		r.rt.mu.Lock()
		r.rt.used = 100 << 20
		r.rt.mu.Unlock()
		resize("400m", "64Mi")
		r.until("it fails", func() bool {
			c := condition(r.get("p"), corev1.PodResizeInProgress)
			return c != nil && c.Reason == corev1.PodReasonError
		})
		r.stop() // an agent that starts anew goes on
		r.start()
		r.rt.mu.Lock()
		r.rt.used = 10 << 20
		r.rt.mu.Unlock()
		r.until("it is resized", func() bool {
			return len(r.rt.updated()) == 2 && condition(r.get("p"), corev1.PodResizeInProgress) == nil
		})
	})
}

// The status has what a pod has as a whole, also for want of resources of its own: what its cgroup says while it runs, with limits only
// where every container has one.
func TestStatusOfWholePod(t *testing.T) {
	one := corev1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "1Gi"),
		Limits: quantities("cpu", "200m", "memory", "2Gi")}
	none := corev1.ResourceRequirements{}
	for _, tt := range []struct {
		name        string
		whole       *corev1.ResourceRequirements
		other       corev1.ResourceRequirements
		running     bool
		asks, limit corev1.ResourceList
	}{
		{"all bound", nil, one, true, quantities("cpu", "200m", "memory", "2Gi"), quantities("cpu", "400m", "memory", "4Gi")},
		{"one is not", nil, none, true, one.Requests, nil},
		{"not yet running", nil, none, false, one.Requests, one.Limits},
		{"others", nil, corev1.ResourceRequirements{Requests: quantities("a.b/c", "1"), Limits: quantities("a.b/c", "1")}, true,
			quantities("cpu", "100m", "memory", "1Gi", "a.b/c", "1"), quantities("a.b/c", "1")},
		{"of its own", &corev1.ResourceRequirements{Limits: quantities("cpu", "1")}, none, true, one.Requests, quantities("cpu", "1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := testPod(corev1.RestartPolicyAlways, "", "a", "b")
			p.Spec.Resources, p.Spec.Containers[0].Resources, p.Spec.Containers[1].Resources = tt.whole, one, tt.other
			got := podInUse(p, tt.running)
			if !equality.Semantic.DeepEqual(got.Requests, tt.asks) || !equality.Semantic.DeepEqual(got.Limits, tt.limit) {
				t.Errorf("%s: %v", tt.name, got)
			}
		})
	}
}

// A container without a limit of its own restarts for one of the pod as a whole, if it asks for that.
func TestResizeWholeByRestart(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities("cpu", "100m"), Limits: quantities("cpu", "200m", "memory", "64Mi")}
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU,
				RestartPolicy: corev1.RestartContainer}}
			bound := p.Spec.Containers[0].DeepCopy()
			bound.Name, bound.Resources.Limits = "b", quantities("cpu", "50m")
			p.Spec.Containers = append(p.Spec.Containers, *bound)
		}, "a")
		r.reaches("p", corev1.PodRunning)
		resize := func(cpu, memory string) {
			next := resource.Clone(r.get("p"))
			next.Spec.Resources.Limits = quantities("cpu", cpu, "memory", memory)
			if _, err := r.Update(r.t.Context(), kinds.Pods, next, "resize"); err != nil {
				t.Fatal(err)
			}
			r.until("it is resized", func() bool {
				p := r.get("p")
				return condition(p, corev1.PodResizeInProgress) == nil && p.Status.ObservedGeneration == p.Generation &&
					p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].State.Running != nil
			})
			r.rests(5 * time.Second)
		}
		restarts := func() string {
			s := r.get("p").Status.ContainerStatuses
			return fmt.Sprint(s[0].RestartCount, " ", s[1].RestartCount)
		}
		resize("400m", "64Mi")
		if got := restarts(); got != "1 0" || len(r.rt.updated()) != 0 || r.rt.newest("a").Linux.Resources.CpuQuota != 40000 {
			t.Errorf("more CPU: restarts %s, %d updates, %v", got, len(r.rt.updated()), r.rt.newest("a").Linux.Resources)
		}
		resize("400m", "128Mi")
		if got := restarts(); got != "1 0" || len(r.rt.updated()) != 2 {
			t.Errorf("more memory: restarts %s, %d updates", got, len(r.rt.updated()))
		}
	})
}

// A pod's own cgroup holds what its containers may have together; resources of the pod as a whole bound containers that have none.
func TestPodValues(t *testing.T) {
	p := testPod(corev1.RestartPolicyAlways, "", "a", "b")
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "1"), Limits: quantities("cpu", "2", "memory",
		"1Gi")}
	if v := podValues(p); *v.Shares != 1024 || *v.Quota != -1 || *v.Memory != -1 {
		t.Errorf("one is not limited: %d %d %d", *v.Shares, *v.Quota, *v.Memory)
	}
	p.Spec.Containers[1].Resources.Limits = quantities("cpu", "500m", "memory", "1Gi")
	if v := podValues(p); *v.Quota != 250000 || *v.Memory != 2<<30 {
		t.Errorf("both are limited: %d %d", *v.Quota, *v.Memory)
	}
	p.Spec.Containers[1].Resources.Limits = nil
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities("cpu", "3"), Limits: quantities("cpu", "4", "memory", "3Gi")}
	if v := podValues(p); *v.Shares != 3072 || *v.Quota != 400000 || *v.Memory != 3<<30 {
		t.Errorf("the pod as a whole: %d %d %d", *v.Shares, *v.Quota, *v.Memory)
	}
	if r := resources(p, &p.Spec.Containers[1]); r.MemoryLimitInBytes != 3<<30 || r.CpuQuota != 400000 || r.CpuShares != 4096 {
		t.Errorf("a container of it: %v", r)
	}
	if r := resources(p, &p.Spec.Containers[0]); r.MemoryLimitInBytes != 1<<30 {
		t.Errorf("a container with a limit of its own: %v", r)
	}
}

package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// four are a container's resources: requests and limits of CPU in thousandths, then of memory in MiB. Zero: not said.
func four(cpu, cpuLimit, memory, memoryLimit int64) (r corev1.ResourceRequirements) {
	r.Requests, r.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	set := func(list corev1.ResourceList, cpu, memory int64) {
		if cpu > 0 {
			list["cpu"] = *apiresource.NewMilliQuantity(cpu, apiresource.DecimalSI)
		}
		if memory > 0 {
			list["memory"] = *apiresource.NewQuantity(memory<<20, apiresource.BinarySI)
		}
	}
	set(r.Requests, cpu, memory)
	set(r.Limits, cpuLimit, memoryLimit)
	return r
}

// resizing has a pod whose container c is of the kind run with the first resources, then with each of those that follow: it returns the
// restarts of c after each. A whole one is a main container of a pod with resources of its own.
func resizing(t *testing.T, kind string, policy []corev1.ContainerResizePolicy, steps ...corev1.ResourceRequirements) (restarts []int32) {
	simulate(t, func(r *rig) {
		r.stop()
		r.cfg.MaxRestartPause = time.Second
		r.start()
		of := func(p *corev1.Pod) *corev1.Container {
			if kind == "main" || kind == "whole" {
				return &p.Spec.Containers[0]
			}
			return &p.Spec.InitContainers[0]
		}
		status := func() *corev1.ContainerStatus {
			st := r.get("p").Status
			if kind == "sidecar" || kind == "init" {
				st.ContainerStatuses = st.InitContainerStatuses
			}
			if len(st.ContainerStatuses) == 0 {
				return &corev1.ContainerStatus{}
			}
			return &st.ContainerStatuses[0]
		}
		r.pod("p", func(p *corev1.Pod) {
			c := p.Spec.Containers[0]
			c.Resources, c.ResizePolicy = steps[0], policy
			switch kind {
			case "sidecar":
				c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
				fallthrough
			case "init":
				p.Spec.InitContainers = []corev1.Container{c}
				p.Spec.Containers[0].Name, p.Spec.Containers[0].Resources = "main", steps[0]
			case "whole":
				p.Spec.Resources = new(four(100, 200, 100, 200))
				fallthrough
			default:
				p.Spec.Containers[0] = c
			}
		}, "c")
		r.until("it runs", func() bool { return status().State.Running != nil })
		for _, want := range steps[1:] {
			next := resource.Clone(r.get("p"))
			of(next).Resources = want
			if _, err := r.Update(r.t.Context(), kinds.Pods, next, "resize"); err != nil {
				t.Fatal(err)
			}
			r.until("it is resized", func() bool {
				s, p := status(), r.get("p")
				return s.State.Running != nil && s.Resources != nil && equality.Semantic.DeepEqual(s.Resources.Requests, want.Requests) &&
					equality.Semantic.DeepEqual(s.Resources.Limits, want.Limits) && p.Status.ObservedGeneration == p.Generation &&
					equality.Semantic.DeepEqual(s.AllocatedResources, want.Requests) &&
					condition(p, corev1.PodResizePending) == nil && condition(p, corev1.PodResizeInProgress) == nil
			})
			has := r.rt.newest("c").Linux.Resources
			if list := r.rt.updated(); len(list) > 0 {
				has = list[len(list)-1].Linux
			}
			if len(policy) == 0 && (has.CpuQuota != want.Limits.Cpu().MilliValue()*100 || has.MemoryLimitInBytes != want.Limits.Memory().Value() ||
				has.CpuShares != want.Requests.Cpu().MilliValue()*1024/1000) {
				t.Errorf("%s: the runtime has %v, want %v", kind, has, want)
			}
			restarts = append(restarts, status().RestartCount)
		}
	})
	return restarts
}

// Whatever changes of a container's resources changes while it runs, up and down, or by a restart where its policy says so of what
// changes. An init container that is no sidecar does too while it runs.
func TestResizeOfEach(t *testing.T) {
	type change struct {
		to          corev1.ResourceRequirements
		cpu, memory bool // is what changes
	}
	series := map[string][]change{ // the first is what it has before and after each of the others
		"guaranteed": {{to: four(20, 20, 20, 20)}, {four(30, 30, 20, 20), true, false}, {four(20, 20, 30, 30), false, true},
			{four(30, 30, 30, 30), true, true}, {four(30, 30, 15, 15), true, true}},
		"burstable": {{to: four(20, 40, 20, 40)}, {four(30, 40, 20, 40), true, false}, {four(20, 60, 20, 40), true, false},
			{four(20, 40, 30, 40), false, true}, {four(20, 40, 20, 60), false, true}, {four(30, 60, 30, 60), true, true},
			{four(30, 60, 10, 30), true, true}, {four(30, 35, 10, 60), true, true}},
	}
	for _, kind := range []string{"main", "whole", "sidecar", "init"} {
		for i, word := range []string{"no", "cpu", "memory", "cpu and memory"} {
			if kind == "init" && i > 0 || kind != "main" && i%3 != 0 { // the API refuses the first
				continue
			}
			var list []corev1.ContainerResizePolicy
			for bit, res := range []corev1.ResourceName{"cpu", "memory"} {
				if i&(bit+1) != 0 {
					list = append(list, corev1.ContainerResizePolicy{ResourceName: res, RestartPolicy: corev1.RestartContainer})
				}
			}
			for name, changes := range series {
				t.Run(name+" "+kind+", "+word+" restart", func(t *testing.T) {
					steps, want, n := []corev1.ResourceRequirements{changes[0].to}, []int32(nil), int32(0)
					for _, c := range changes[1:] {
						restarts := c.cpu && i&1 != 0 || c.memory && i&2 != 0
						for _, next := range []corev1.ResourceRequirements{c.to, changes[0].to} {
							if restarts {
								n++
							}
							steps, want = append(steps, next), append(want, n)
						}
					}
					if got := resizing(t, kind, list, steps...); !slices.Equal(got, want) {
						t.Errorf("restarts %v, want %v", got, want)
					}
				})
			}
		}
	}
}

// Several containers of a pod change at once, some up and some down; one gets limits that it never had.
func TestResizeOfMany(t *testing.T) {
	simulate(t, func(r *rig) {
		was := []corev1.ResourceRequirements{four(20, 40, 20, 40), four(50, 60, 50, 60), four(20, 0, 20, 0), four(10, 20, 10, 20)}
		will := []corev1.ResourceRequirements{four(30, 60, 40, 80), four(20, 30, 20, 30), four(40, 60, 40, 60), was[3]}
		r.pod("p", func(p *corev1.Pod) {
			for i := range was {
				p.Spec.Containers[i].Resources = was[i]
			}
		}, "up", "down", "new", "same")
		r.reaches("p", corev1.PodRunning)
		next := resource.Clone(r.get("p"))
		for i := range will {
			next.Spec.Containers[i].Resources = will[i]
		}
		if _, err := r.Update(r.t.Context(), kinds.Pods, next, "resize"); err != nil {
			t.Fatal(err)
		}
		r.until("all are resized", func() bool {
			p := r.get("p")
			for i, s := range p.Status.ContainerStatuses {
				if s.RestartCount > 0 || s.Resources == nil || !equality.Semantic.DeepEqual(s.Resources.Limits, will[i].Limits) ||
					!equality.Semantic.DeepEqual(s.AllocatedResources, will[i].Requests) {
					return false
				}
			}
			return condition(p, corev1.PodResizeInProgress) == nil
		})
		if n := len(r.rt.updated()); n != 3 {
			t.Errorf("%d updates, want one for each that changes", n)
		}
	})
}

// Of resizes that wait for room that of the highest priority goes first, then one of a guaranteed pod, then the one that has waited
// longest.
func TestResizesTakeTurns(t *testing.T) {
	simulate(t, func(r *rig) {
		r.until("the node is there", func() bool { return resource.Get(r.Read(), kinds.Nodes, "", "n") != nil })
		list := r.agent.allocatable()
		all := list.Cpu().MilliValue()
		create(r, kinds.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 5})
		pod := func(name string, from corev1.ResourceRequirements) {
			r.pod(name, func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources = from
				if name == "high" {
					p.Spec.PriorityClassName = name
				}
			}, "a")
			r.reaches(name, corev1.PodRunning)
		}
		pod("large", four(all-500, all-500, 20, 20))
		names := []string{"late", "early", "guaranteed", "high"}
		for _, name := range names {
			from := four(20, 40, 20, 20)
			if name == "guaranteed" {
				from = four(20, 20, 20, 20)
			}
			pod(name, from)
		}
		ask := all * 2 / 3
		for _, name := range []string{"early", "late", "guaranteed", "high"} {
			to := four(ask, ask+20, 20, 20)
			if name == "guaranteed" {
				to = four(ask, ask, 20, 20)
			}
			next := resource.Clone(r.get(name))
			next.Spec.Containers[0].Resources = to
			if _, err := r.Update(r.t.Context(), kinds.Pods, next, "resize"); err != nil {
				t.Fatal(err)
			}
			r.until(name+" waits", func() bool { return condition(r.get(name), corev1.PodResizePending) != nil })
			r.rests(2 * time.Second)
		}
		var order []string
		for gone := "large"; gone != ""; {
			r.remove(gone)
			gone = ""
			r.rests(time.Minute)
			for _, name := range names {
				if p := r.get(name); p != nil && resized(p, fmt.Sprint(ask, "m")) {
					gone, order = name, append(order, name)
				}
			}
		}
		if got := fmt.Sprint(order); got != "[high guaranteed early late]" {
			t.Errorf("they were resized in the order %s", got)
		}
	})
}

package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// counted is the sum of a counter's series, or of what a histogram's have counted, that begin with the labels.
func (r *rig) counted(name string, labels ...string) (n float64) {
	r.t.Helper()
	families, err := r.agent.meter.Gatherer().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			ok := f.GetName() == name
			for i, want := range labels {
				ok = ok && i < len(m.Label) && m.Label[i].GetValue() == want
			}
			if ok {
				n += m.Counter.GetValue() + float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return n
}

// What rests causes no write: neither a pod that runs, nor one that waits for its restart, nor one that has ended; also for an agent
// that starts anew.
func TestRestingPodsAreNotWritten(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("runs", nil, "a", "b")
		r.pod("crashes", nil, "c")
		r.pod("ends", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }, "e")
		for _, name := range []string{"runs", "crashes", "ends"} {
			r.reaches(name, corev1.PodRunning)
		}
		r.rt.exit("e", 0)
		r.reaches("ends", corev1.PodSucceeded)
		waits := func() bool {
			s := r.get("crashes").Status.ContainerStatuses[0]
			return s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" && s.RestartCount == 4
		}
		r.until("it waits for its fifth start", func() bool {
			if !waits() {
				r.rt.exit("c", 1)
			}
			return waits()
		})
		r.rests(10 * time.Second)
		was := map[string]string{}
		for _, p := range r.agent.pods() {
			was[p.Name] = p.ResourceVersion
		}
		if n := r.counted("kubelet_terminated_containers_total", "container", "0", "Error"); n != 1 {
			t.Errorf("%v containers have ended well", n)
		}
		check := func(when string) {
			t.Helper()
			for range 20 {
				for name := range was {
					r.agent.wake("d", name, "test")
				}
				r.rests(time.Second)
			}
			for name, rev := range was {
				if now := r.get(name); now.ResourceVersion != rev {
					t.Errorf("%s: pod %s was written: %+v", when, name, now.Status)
				}
			}
		}
		check("woken")
		r.stop()
		r.start()
		check("after a restart")
	})
}

func TestDeletionDuringInitCrashLoop(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img"}} }, "a")
		r.until("its init container is in a pause", func() bool {
			r.rt.exit("i", 1)
			list := r.get("p").Status.InitContainerStatuses
			return len(list) > 0 && list[0].State.Waiting != nil && list[0].RestartCount > 1
		})
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r.until("it is gone", func() bool { return r.get("p") == nil })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v to go", took)
		}
	})
}

// A container without probes is ready with its first Running.
func TestReadyAtOnce(t *testing.T) {
	simulate(t, func(r *rig) {
		feed := r.Feed(kinds.Pods)
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		r.pod("p", nil, "a", "b")
		for ready := false; !ready; {
			batch, err := feed.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, ch := range batch.Changes {
				p, ok := ch.New.(*corev1.Pod)
				if !ok {
					continue
				}
				for _, s := range p.Status.ContainerStatuses {
					if s.State.Running != nil && (!s.Ready || !*s.Started) {
						t.Errorf("container %s runs, and is not ready: %+v", s.Name, p.Status)
					}
				}
				ready = p.Status.Phase == corev1.PodRunning
			}
		}
	})
}

// A sandbox whose network can't be set up keeps its name: the next one has another.
func TestSandboxNames(t *testing.T) {
	simulate(t, func(r *rig) {
		r.rt.noNet = 3
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		if events := r.events("p"); strings.Count(events, "FailedCreatePodSandBox") != 1 { // repeats count
			t.Errorf("events: %s", events)
		}
	})
}

// Pods that were removed by force leave nothing: whether the agent saw it or not.
func TestForcedDeletionLeavesNothing(t *testing.T) {
	simulate(t, func(r *rig) {
		traces := func() (list []string) {
			for _, pattern := range []string{"node/pods/*", "logs/*", "cgroup/*/kubepods/*/pod*"} {
				found, err := filepath.Glob(filepath.Join(filepath.Dir(r.cfg.Dir), pattern))
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, found...)
			}
			return list
		}
		force := func(name string) {
			t.Helper()
			now := int64(0)
			if err := r.Delete(r.t.Context(), kinds.Pods, "d", name, &metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
		}
		r.pod("seen", nil, "a")
		r.pod("unseen", nil, "a")
		r.reaches("seen", corev1.PodRunning)
		p := r.reaches("unseen", corev1.PodRunning)
		force("seen")
		r.until("one is gone", func() bool { n, _ := r.rt.count(); return n == 1 })
		r.stop()
		force("unseen")
		r.rt.mu.Lock() // the machine started anew: the runtime forgot it too
		clear(r.rt.list)
		clear(r.rt.boxes)
		r.rt.mu.Unlock()
		leftover := filepath.Join(filepath.Dir(r.cfg.Dir), "cgroup/cpu/kubepods/besteffort/pod"+string(p.UID), "c")
		if err := os.MkdirAll(leftover, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(r.cfg.Dir), "cgroup/cpu/cgroup.procs"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.until("nothing is left", func() bool { return len(traces()) == 0 })
	})
}

// Goroutines that pull images and stop containers end with Run.
func TestNothingOutlivesRun(t *testing.T) {
	simulate(t, func(r *rig) {
		stuck := make(chan struct{})
		r.rt.stop = func(ctx context.Context, _ string) { close(stuck); <-ctx.Done() }
		r.pod("p", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3600)) }, "a")
		r.reaches("p", corev1.PodRunning)
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		<-stuck
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the agent ended after %v", took)
		}
		r.rt.stop = nil
		r.start()
		r.until("the next agent goes on", func() bool { return r.get("p") == nil })
	})
}

// A pod that its node refuses is told so once: one write, one event, no container.
func TestRejections(t *testing.T) {
	simulate(t, func(r *rig) {
		port := func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		}
		r.pod("first", port, "a")
		r.reaches("first", corev1.PodRunning)
		for name, c := range map[string]struct {
			edit            func(p *corev1.Pod)
			reason, message string
		}{
			"port": {port, "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"},
			"cpu": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("cpu", "5000") }, "OutOfcpu",
				"Node didn't have enough resource: cpu"},
			"sysctl": {func(p *corev1.Pod) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
			}, "SysctlForbidden", `forbidden sysctl: "kernel.msgmax" not allowlisted`},
			"affinity": {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, "NodeAffinity",
				"Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
			"os": {func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelOSStable: "windows"} }, "PodOSSelectorNodeLabelDoesNotMatch",
				"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
			"own-os": {func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, "PodOSNotSupported",
				"Failed to admit pod as the OS field doesn't match node OS"},
		} {
			r.pod(name, c.edit, "a")
			p := r.reaches(name, corev1.PodFailed)
			if p.Status.Reason != c.reason || !strings.HasPrefix(p.Status.Message, "Pod was rejected: "+c.message) {
				t.Errorf("%s: %s: %s", name, p.Status.Reason, p.Status.Message)
			}
			for _, s := range p.Status.ContainerStatuses {
				if s.State.Terminated != nil { // rules for exit codes would judge it
					t.Errorf("%s: a container that never was has ended: %+v", name, s.State)
				}
			}
			rev := p.ResourceVersion
			if got := r.events(name); got != c.reason {
				t.Errorf("%s: events %q", name, got)
			}
			r.rests(time.Minute)
			if now := r.get(name).ResourceVersion; now != rev {
				t.Errorf("%s: written again: %s, %s", name, rev, now)
			}
		}
		if n, _ := r.rt.count(); n != 1 {
			t.Errorf("%d containers, want 1", n)
		}
		list := resource.List(r.Read(), kinds.Pods, "d")
		if len(list) != 7 {
			t.Errorf("%d pods", len(list))
		}
	})
}

// A critical pod that finds no room takes that of pods of less worth, and of no more than it needs.
func TestCriticalPodPreempts(t *testing.T) {
	simulate(t, func(r *rig) {
		r.until("the node is there", func() bool { return resource.Get(r.Read(), kinds.Nodes, "", "n") != nil })
		all := r.agent.allocatable()[corev1.ResourceCPU]
		third := all.MilliValue() / 3
		asks := func(milli int64) func(p *corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *apiresource.NewMilliQuantity(milli,
					apiresource.DecimalSI)}
			}
		}
		for _, name := range []string{"one", "two", "three"} {
			r.pod(name, asks(third), "a")
			r.reaches(name, corev1.PodRunning)
		}
		r.pod("critical", func(p *corev1.Pod) {
			asks(third)(p)
			p.Annotations = map[string]string{mirrorNote: "x"}
		}, "a")
		r.reaches("critical", corev1.PodRunning)
		ended := 0
		for _, name := range []string{"one", "two", "three"} {
			p := r.get(name)
			if p.Status.Phase != corev1.PodFailed {
				continue
			}
			ended++
			if p.Status.Reason != "Preempting" || !hasCondition(p, corev1.DisruptionTarget) {
				t.Errorf("%s: %+v", name, p.Status)
			}
		}
		if ended != 1 {
			t.Errorf("%d pods gave way, want 1", ended)
		}
	})
}

func hasCondition(p *corev1.Pod, typ corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == typ && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// A pod runs by the handler of its RuntimeClass; one whose class is gone does not run.
func TestRuntimeClassHandler(t *testing.T) {
	simulate(t, func(r *rig) {
		create(r, kinds.RuntimeClasses, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "slim"}, Handler: "crun"})
		r.pod("p", func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("slim") }, "a")
		r.reaches("p", corev1.PodRunning)
		r.rt.mu.Lock()
		defer r.rt.mu.Unlock()
		for _, b := range r.rt.boxReqs {
			if b.RuntimeHandler != "crun" {
				t.Errorf("it runs by the handler %q", b.RuntimeHandler)
			}
		}
	})
}

// Log shippers find every container's log by its link, for as long as there is a log.
func TestLogLinks(t *testing.T) {
	simulate(t, func(r *rig) {
		p := r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		links := func() []string {
			list, err := filepath.Glob(filepath.Join(filepath.Dir(r.cfg.LogDir), "containers", "p_d_a-ctr*.log"))
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		if list := links(); len(list) != 1 {
			t.Fatalf("links: %v", list)
		}
		want := filepath.Join(r.cfg.LogDir, "d_p_"+string(p.UID), "a", "0.log")
		if to, err := os.Readlink(links()[0]); err != nil || to != want {
			t.Errorf("it leads to %s, %v, want %s", to, err, want)
		}
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		r.until("the link is gone", func() bool { return r.get("p") == nil && len(links()) == 0 })
	})
}

func TestFullHostname(t *testing.T) {
	a := testAgent(t)
	yes := true
	for _, c := range []struct {
		name string
		edit func(p *corev1.Pod)
		want string // "": an error
	}{
		{"its name", func(*corev1.Pod) {}, "p"},
		{"its own", func(p *corev1.Pod) { p.Spec.Hostname = "me" }, "me"},
		{"full", func(p *corev1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "sub", &yes }, "p.sub.d.svc.cluster.local"},
		{"overridden", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.HostnameOverride = "me", new("host.example.com") }, "host.example.com"},
		{"as long as the kernel takes", func(p *corev1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("s", 42), &yes },
			"p." + strings.Repeat("s", 42) + ".d.svc.cluster.local"}, // 64
		{"too long", func(p *corev1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("s", 43), &yes }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := testPod(never, "", "a")
			c.edit(pod)
			if got, err := a.boxes.fullHostname(pod); got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
			}
		})
	}
}

// A pod whose sandbox can't even be described says so.
func TestNoSandboxToMake(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) { p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("s", 43), new(true) }, "a")
		r.until("an event tells", func() bool { return strings.Contains(r.events("p"), "FailedCreatePodSandBox") })
	})
}

func TestImageStatuses(t *testing.T) {
	many := []string{"1", "2", "3", "4", "5", "6"}
	list := imageStatuses([]*cri.Image{{Id: "s", Size: 1, RepoTags: []string{"s:1"}}, {Id: "l", Size: 9, RepoTags: many,
		RepoDigests: []string{"l@sha256:x"}}})
	if len(list) != 2 || list[0].SizeBytes != 9 || strings.Join(list[0].Names, " ") != "l@sha256:x 1 2 3 4" {
		t.Errorf("%v", list)
	}
}

// A pod whose sandbox dies again and again does not leave one behind each time.
func TestDeadSandboxesGo(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		running := func() (id string) {
			r.rt.mu.Lock()
			defer r.rt.mu.Unlock()
			for _, b := range r.rt.boxes {
				if b.State == cri.PodSandboxState_SANDBOX_READY {
					id = b.Id
				}
			}
			return id
		}
		for range 8 {
			was := running()
			if _, err := r.rt.StopPodSandbox(r.t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: was}); err != nil {
				t.Fatal(err)
			}
			r.until("there is another", func() bool { return running() != "" && running() != was })
			r.rests(10 * time.Minute)
		}
		if _, boxes := r.rt.count(); boxes > 4 {
			t.Errorf("%d sandboxes", boxes)
		}
	})
}

// Containers that somebody takes away from the runtime are started again, and their restarts are counted on.
func TestLostContainers(t *testing.T) {
	simulate(t, func(r *rig) {
		always := corev1.ContainerRestartPolicyAlways
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "img", ImagePullPolicy: corev1.PullIfNotPresent},
				{Name: "side", Image: "img", ImagePullPolicy: corev1.PullIfNotPresent, RestartPolicy: &always}}
		}, "a")
		r.until("init runs", func() bool { return r.rt.runs("init") })
		r.rt.exit("init", 0)
		r.reaches("p", corev1.PodRunning)
		restarts := func() (side, a int32) {
			st := r.get("p").Status
			return st.InitContainerStatuses[1].RestartCount, st.ContainerStatuses[0].RestartCount
		}
		r.rt.exit("a", 1)
		r.until("it runs again", func() bool { _, a := restarts(); return a == 1 })
		for n := range int32(3) {
			r.rt.mu.Lock()
			for id, c := range r.rt.list {
				if c.Metadata.Name != "init" {
					delete(r.rt.list, id)
				}
			}
			r.rt.mu.Unlock()
			r.until("they run again", func() bool {
				side, a := restarts()
				st := r.get("p").Status
				return side == n+1 && a == n+2 && st.ContainerStatuses[0].State.Running != nil && st.InitContainerStatuses[1].State.Running != nil
			})
			r.rests(time.Minute)
			st := r.get("p").Status
			if side, a := restarts(); side != n+1 || a != n+2 || st.Phase != corev1.PodRunning || st.InitContainerStatuses[0].RestartCount != 0 {
				t.Fatalf("later: %+v", st)
			}
		}
	})
}

// An event tells of each pause before a restart, once, and of a sandbox that has to be made anew.
func TestEventsOfRestarts(t *testing.T) {
	simulate(t, func(r *rig) {
		p := r.pod("p", nil, "a")
		r.reaches("p", corev1.PodRunning)
		told := func(reason, text string) (n int32) {
			r.rests(time.Second)
			for _, e := range resource.List(r.Read(), kinds.Events, "d") {
				if e.Reason == reason && e.Message == text {
					n += max(e.Count, 1)
				}
			}
			return n
		}
		text := "Back-off restarting failed container a in pod p_d(" + string(p.UID) + ")"
		for n := range int32(4) { // the first restart is at once
			r.rt.exit("a", 1)
			r.until("it runs again", func() bool { return r.get("p").Status.ContainerStatuses[0].RestartCount == n+1 })
			if got := told("BackOff", text); got != n {
				t.Errorf("after %d restarts told %d times", n+1, got)
			}
		}
		const changed = "Pod sandbox changed, it will be killed and re-created."
		if told("SandboxChanged", changed) != 0 {
			t.Error("its sandbox is the first")
		}
		for id := range r.rt.boxes {
			if _, err := r.rt.StopPodSandbox(r.t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
				t.Fatal(err)
			}
		}
		r.until("there is another", func() bool { _, boxes := r.rt.count(); return boxes == 2 })
		if told("SandboxChanged", changed) != 1 {
			t.Error("nothing tells of the new sandbox")
		}
	})
}

// All conditions of a pod name the generation that they are of, as soon as the agent has seen it; the one of a pod that no scheduler
// put here is there too.
func TestConditionsFollowTheSpec(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "absent:1", corev1.PullNever
		}, "a")
		of := func(generation int64) func() bool {
			return func() bool {
				seen := map[corev1.PodConditionType]bool{}
				for _, c := range r.get("p").Status.Conditions {
					seen[c.Type] = c.ObservedGeneration == generation
				}
				return seen[corev1.PodScheduled] && seen[corev1.PodInitialized] && seen[corev1.ContainersReady] && seen[corev1.PodReady]
			}
		}
		r.until("the first", of(1))
		next := resource.Clone(r.get("p"))
		next.Spec.Containers[0].Image = "img"
		if _, err := r.Update(r.t.Context(), kinds.Pods, next, ""); err != nil {
			t.Fatal(err)
		}
		r.until("the second", of(2))
	})
}

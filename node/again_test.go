package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// ruled gives a container of the pod a policy of its own, and rules: "restart:42,43 all:!1".
func ruled(name string, policy corev1.ContainerRestartPolicy, rules string) func(*corev1.Pod) {
	var list []corev1.ContainerRestartRule
	for word := range strings.FieldsSeq(rules) {
		action, codes, _ := strings.Cut(word, ":")
		codes, not := strings.CutPrefix(codes, "!")
		r := corev1.ContainerRestartRule{Action: corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn}}
		if action == "all" {
			r.Action = corev1.ContainerRestartRuleActionRestartAllContainers
		}
		if not {
			r.ExitCodes.Operator = corev1.ContainerRestartRuleOnExitCodesOpNotIn
		}
		for code := range strings.SplitSeq(codes, ",") {
			n := int32(0)
			for _, d := range code {
				n = n*10 + d - '0'
			}
			r.ExitCodes.Values = append(r.ExitCodes.Values, n)
		}
		list = append(list, r)
	}
	return func(p *corev1.Pod) {
		for _, l := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range l {
				if l[i].Name == name {
					l[i].RestartPolicy, l[i].RestartPolicyRules = &policy, list
				}
			}
		}
	}
}

// later puts containers of a runtimeState into a later life than the first: "ID ID".
func (s runtimeState) later(ids string) runtimeState {
	for i := range s.containers {
		if strings.Contains(" "+ids+" ", " "+s.containers[i].id+" ") {
			s.containers[i].notes = map[string]string{noteLife: "1"}
		}
	}
	return s
}

func TestPlanOfRestartRules(t *testing.T) {
	const own, onOwn = corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure
	for _, c := range []struct {
		planCase
		later string
	}{
		{planCase{name: "a rule wins over the policy", policy: never, seen: "box a:42", edit: ruled("a", own, "restart:42"),
			want: "start:a#1"}, ""},
		{planCase{name: "no rule fits", policy: never, seen: "box a:1", edit: ruled("a", own, "restart:42"), want: "stop done"}, ""},
		{planCase{name: "NotIn", policy: never, seen: "box a:1", edit: ruled("a", own, "restart:!42"), want: "start:a#1"}, ""},
		{planCase{name: "the container's policy wins over the pod's", seen: "box a:1", edit: ruled("a", own, ""), want: "stop done"}, ""},
		{planCase{name: "OnFailure of its own", policy: never, main: "a b", seen: "box a:1 b:0", edit: ruled("a", onOwn, ""),
			want: "start:a#1"}, ""},
		{planCase{name: "an init container that may fail", policy: never, init: "i", seen: "box i:3", edit: ruled("i", own, "restart:3"),
			want: "init-start:i#1"}, ""},
		{planCase{name: "an init container that may not", init: "i", seen: "box i:3", edit: ruled("i", own, "restart:4"),
			want: "stop done"}, ""},
		{planCase{name: "sandbox gone, a rule restarts", policy: never, seen: "deadbox a:42", edit: ruled("a", own, "restart:42"),
			want: "sandbox"}, ""},

		{planCase{name: "all: the others stop first", policy: never, init: "i s+", main: "a b", seen: "box i:0 s:run a:42 b:run",
			edit: ruled("a", own, "all:42"), want: "kill:s kill:b"}, ""},
		{planCase{name: "all: then init again", policy: never, init: "i s+", main: "a b", seen: "box i:0 s:137 a:42 b:137",
			edit: ruled("a", own, "all:42"), want: "init-start:i#1"}, ""},
		{planCase{name: "all: init runs again", policy: never, init: "i", main: "a b", seen: "box i#1:run i:0 a:42 b:137",
			edit: ruled("a", own, "all:42")}, "i#1:run"},
		{planCase{name: "all: main follows", policy: never, init: "i", main: "a b", seen: "box i#1:0 i:0 a:42 b:137",
			edit: ruled("a", own, "all:42"), want: "start:a#1 start:b#1"}, "i#1:0"},
		{planCase{name: "all: the one that began it keeps its pause", policy: never, main: "a b", seen: "box a#4:42 b:137",
			edit: ruled("a", own, "all:42"), pause: time.Minute, want: "start:b#1 wait:a", again: time.Minute}, ""},
		{planCase{name: "all: at rest in the next life", policy: never, main: "a b", seen: "box a#1:run a:42 b#1:run b:137",
			edit: ruled("a", own, "all:42")}, "a#1:run b#1:run"},
		{planCase{name: "all: by a container that ran beside one of the next life", policy: never, main: "a b",
			seen: "box a#1:run a:42 b#1:run b:137", edit: ruled("a", own, "all:42"), want: "kill:b"}, "a#1:run"},
		{planCase{name: "all: the next life ends", policy: never, main: "a b", seen: "box a#1:0 a:42 b#1:0 b:137",
			edit: ruled("a", own, "all:42"), want: "stop done"}, "a#1:0 b#1:0"},
		{planCase{name: "all: by an init container", policy: never, init: "i j", seen: "box i:0 j:7", edit: ruled("j", own, "all:7"),
			want: "init-start:i#1"}, ""},
		{planCase{name: "all: by a sidecar", policy: never, init: "s+ i", seen: "box s:7 i:0 a:run",
			edit: ruled("s", corev1.ContainerRestartPolicyAlways, "all:7"), want: "kill:a"}, ""},
		{planCase{name: "all: by a sidecar, then it first", policy: never, init: "s+ i", seen: "box s:7 i:0 a:143",
			edit: ruled("s", corev1.ContainerRestartPolicyAlways, "all:7"), want: "init-start:s#1"}, ""},
		{planCase{name: "all: ephemeral ones are left alone", policy: never, seen: "box a:42 dbg:run", want: "start:a#1",
			edit: func(p *corev1.Pod) { debugged(p); ruled("a", own, "all:42")(p) }}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world()
			w.seen = w.seen.later(c.later)
			if got := plan(w); got.words() != c.want || got.again != c.again {
				t.Errorf("plan: %q again %v, want %q again %v", got.words(), got.again, c.want, c.again)
			}
		})
	}
}

// conditionOf is a condition's status; "": the pod has no such condition.
func conditionOf(p *corev1.Pod, t corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}

// All containers of a pod start anew when one ends as its rule says: counted, told by a condition, in the same sandbox.
func TestRestartAllContainers(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = never
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img"}}
			ruled("a", corev1.ContainerRestartPolicyNever, "all:42")(p)
		}, "a", "b")
		r.until("init runs", func() bool { return r.rt.runs("i") })
		r.rt.exit("i", 0)
		r.reaches("p", corev1.PodRunning)
		feed := r.Feed(kinds.Pods)
		r.rt.exit("a", 42)
		for told := false; !told; {
			batch, err := feed.Next(r.t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, ch := range batch.Changes {
				p, ok := ch.New.(*corev1.Pod)
				told = told || ok && conditionOf(p, corev1.AllContainersRestarting) == corev1.ConditionTrue
			}
		}
		r.until("init runs anew", func() bool { return r.rt.newest("i").Metadata.Attempt == 1 })
		r.stop() // an agent that starts anew goes on
		r.start()
		r.rt.exit("i", 0)
		var p *corev1.Pod
		r.until("all run anew", func() bool {
			p = r.get("p")
			a, b := p.Status.ContainerStatuses[0], p.Status.ContainerStatuses[1]
			return a.State.Running != nil && b.State.Running != nil && a.RestartCount == 1 && b.RestartCount == 1
		})
		if end := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; end == nil || end.ExitCode != 42 {
			t.Errorf("the last state: %+v", p.Status.ContainerStatuses[0])
		}
		if conditionOf(p, corev1.AllContainersRestarting) != corev1.ConditionFalse {
			t.Errorf("now %+v", p.Status.Conditions)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.AllContainersRestarting && c.ObservedGeneration != 0 {
				t.Errorf("it has a generation, where the kubelet tells none: %+v", c)
			}
		}
		if _, boxes := r.rt.count(); boxes != 1 {
			t.Errorf("%d sandboxes", boxes)
		}
		n := resource.Get(r.Read(), kinds.Nodes, "", "n")
		if !slices.Contains(n.Status.DeclaredFeatures, "RestartAllContainersOnContainerExits") {
			t.Errorf("the scheduler puts no such pods here: %v", n.Status.DeclaredFeatures)
		}
		r.rt.exit("a", 0)
		r.rt.exit("b", 0)
		r.reaches("p", corev1.PodSucceeded)
	})
}

// The status of a container whose rule restarts it: as any other that waits for its next start.
func TestRestartRuleStatus(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = never
			ruled("a", corev1.ContainerRestartPolicyNever, "restart:42")(p)
		}, "a")
		r.reaches("p", corev1.PodRunning)
		for n := int32(1); n <= 2; n++ {
			r.rt.exit("a", 42)
			r.until("it runs again", func() bool {
				s := r.get("p").Status.ContainerStatuses[0]
				return r.get("p").Status.Phase == corev1.PodRunning && s.RestartCount == n && s.State.Running != nil
			})
		}
		r.rt.exit("a", 1)
		p := r.reaches("p", corev1.PodFailed)
		if s := p.Status.ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 1 || s.RestartCount != 2 {
			t.Errorf("%+v", s)
		}
	})
}

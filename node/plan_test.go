package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// testPod has the main containers named; init containers come as "name" and sidecars as "name+".
func testPod(policy corev1.RestartPolicy, init string, names ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "u"}, Spec: corev1.PodSpec{RestartPolicy: policy}}
	for _, n := range strings.Fields(init) {
		c := corev1.Container{Name: strings.TrimSuffix(n, "+")}
		if strings.HasSuffix(n, "+") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for _, n := range names {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n})
	}
	return p
}

// testSight reads "box name:run name:3 name:new name#2:run name@old:0": what the runtime has, newest first. A number
// is an exit code, # a restart count, @ another sandbox.
func testSight(text string) (s runtimeState) {
	for _, word := range strings.Fields(text) {
		if word == "box" || word == "deadbox" {
			s.sandboxes = append(s.sandboxes, sandbox{id: "box", uid: "u", ready: word == "box", ips: []string{"10.1.0.9"}})
			continue
		}
		who, state, _ := strings.Cut(word, ":")
		who, box, other := strings.Cut(who, "@")
		name, try, _ := strings.Cut(who, "#")
		c := container{id: word, name: name, uid: "u", sandbox: "box", began: noon.Add(-time.Minute), made: noon.Add(-time.Minute)}
		if other {
			c.sandbox = box
		}
		fmt.Sscan(try, &c.restarts)
		switch state {
		case "run":
			c.state = cri.ContainerState_CONTAINER_RUNNING
		case "new":
			c.state = cri.ContainerState_CONTAINER_CREATED
		case "lost":
			c.state = cri.ContainerState_CONTAINER_UNKNOWN
		default:
			c.state, c.done = cri.ContainerState_CONTAINER_EXITED, noon.Add(-time.Second)
			fmt.Sscan(state, &c.exit)
		}
		s.containers = append(s.containers, c)
	}
	return s
}

// words tells a plan in short.
func (t todo) words() string {
	var out []string
	say := func(ok bool, s string) {
		if ok {
			out = append(out, s)
		}
	}
	say(t.stop, "stop")
	say(t.done, "done")
	say(t.why != "", t.why)
	say(t.grace != nil, "grace")
	say(t.sandbox, "sandbox")
	for _, k := range t.kill {
		out = append(out, "kill:"+k.c.name)
	}
	for _, c := range t.drop {
		out = append(out, "drop:"+c.id)
	}
	for _, s := range t.start {
		init := ""
		if s.init {
			init = "init-"
		}
		out = append(out, fmt.Sprintf("%sstart:%s#%d", init, s.spec.Name, s.try))
	}
	for _, name := range t.waits {
		out = append(out, "wait:"+name)
	}
	return strings.Join(out, " ")
}

type planCase struct {
	name, init, main, seen string
	policy                 corev1.RestartPolicy // "": Always
	edit                   func(*corev1.Pod)
	sick                   string // containers whose probes failed for good
	slow                   string // containers that have not started up
	pause                  time.Duration
	want                   string
	again                  time.Duration
}

func (c planCase) world() world {
	if c.policy == "" {
		c.policy = corev1.RestartPolicyAlways
	}
	if c.main == "" {
		c.main = "a"
	}
	w := world{pod: testPod(c.policy, c.init, strings.Fields(c.main)...), seen: testSight(c.seen), now: noon}
	w.probed = func(name string) probed {
		sick := slices.Contains(strings.Fields(c.sick), name)
		return probed{started: !slices.Contains(strings.Fields(c.slow), name), ready: !sick, sick: sick, why: "sick"}
	}
	w.wait = func(string, *container) time.Duration { return c.pause }
	if c.edit != nil {
		c.edit(w.pod)
	}
	return w
}

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: noon}, new(int64(5))
}

func debugged(p *corev1.Pod) {
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "dbg"}}}
}

func limited(started time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ActiveDeadlineSeconds, p.Status.StartTime = new(int64(10)), &metav1.Time{Time: noon.Add(-started)}
	}
}

const (
	never     = corev1.RestartPolicyNever
	onFailure = corev1.RestartPolicyOnFailure
)

var planCases = []planCase{
	{name: "nothing there", want: "sandbox"},
	{name: "sandbox died under a container", seen: "deadbox a:run", want: "sandbox kill:a"},
	{name: "sandbox of another pod", seen: "box", edit: func(p *corev1.Pod) { p.UID = types.UID("v") }, want: "sandbox"},
	{name: "all ran, sandbox gone", policy: never, seen: "deadbox a:0", want: "stop done"},
	{name: "init failed for good, sandbox gone", policy: never, init: "i", seen: "deadbox i:1", want: "stop done"},
	{name: "failed, sandbox gone, retried", policy: onFailure, seen: "deadbox a:1", want: "sandbox"},
	{name: "first start of all", main: "a b", seen: "box", want: "start:a#0 start:b#0"},
	{name: "at rest", seen: "box a:run"},
	{name: "made and never started", seen: "box a#2:new", want: "drop:a#2:new start:a#2"},
	{name: "ended, Always", seen: "box a:0", want: "start:a#1"},
	{name: "unknown, it may run", seen: "box a:lost", want: "kill:a"},
	{name: "unknown, Never", policy: never, seen: "box a:lost", want: "kill:a"},
	{name: "unknown beside one that ended", policy: never, main: "a b", seen: "box a:0 b:lost", want: "kill:b"},
	{name: "unknown init", init: "i", seen: "box i:lost", want: "kill:i"},
	{name: "unknown sidecar", init: "s+", seen: "box s:lost", want: "kill:s"},
	{name: "unknown, and the sandbox died", seen: "deadbox a:lost", want: "sandbox kill:a"},
	{name: "unknown, sandbox gone, Never", policy: never, seen: "deadbox a:lost", want: "sandbox kill:a"},
	{name: "ended, in its pause", seen: "box a#3:1", pause: time.Minute, want: "wait:a", again: time.Minute},
	{name: "Never", policy: never, seen: "box a:1", want: "stop done"},
	{name: "Never, one of two still runs", policy: never, main: "a b", seen: "box a:1 b:run"},
	{name: "OnFailure, failed", policy: onFailure, seen: "box a#1:1", want: "start:a#2"},
	{name: "OnFailure, all good", policy: onFailure, main: "a b", seen: "box a:0 b:0", want: "stop done"},
	{name: "sidecars end with the pod", policy: never, init: "s+", seen: "box s:run a:0", want: "stop done"},
	{name: "a sidecar that died does not outlive the pod", policy: never, init: "s+", seen: "box s:1 a:0", want: "stop done"},
	{name: "old runs are removed", seen: "box a#3:run a#2:1 a#1:1 a:1", want: "drop:a#1:1 drop:a:1"},

	{name: "init first", init: "i j", seen: "box", want: "init-start:i#0"},
	{name: "init runs", init: "i", seen: "box i:run"},
	{name: "second init", init: "i j", seen: "box i:0", want: "init-start:j#0"},
	{name: "main after init", init: "i", seen: "box i:0", want: "start:a#0"},
	{name: "init failed", init: "i", seen: "box i:1", want: "init-start:i#1"},
	{name: "init failed, in its pause", init: "i", seen: "box i:1", pause: time.Second, want: "wait:i", again: time.Second},
	{name: "init failed, Never", policy: never, init: "i", seen: "box i:1", want: "stop done"},
	{name: "init failed for good, and the sidecar before it has been stopped", policy: never, init: "s+ i", seen: "box s:0 i:1",
		want: "stop done"},
	{name: "init failed for good in a sandbox that died", policy: never, init: "s+ i", seen: "box s@old:0 i@old:1", want: "init-start:s#1"},
	{name: "init was made and not started", init: "i", seen: "box i:new", want: "drop:i:new init-start:i#0"},
	{name: "init ran in a sandbox that died", init: "i", seen: "box i@old:0", want: "init-start:i#1"},
	{name: "init cleaned up while main runs", init: "i", seen: "box a:run"},
	{name: "sick init", init: "i", seen: "box i:run", sick: "i", want: "kill:i"},
	{name: "sidecar first", init: "s+ i", seen: "box", want: "init-start:s#0"},
	{name: "sidecar starts up", init: "s+ i", seen: "box s:run", slow: "s"},
	{name: "sidecar is up", init: "s+ i", seen: "box s:run", want: "init-start:i#0"},
	{name: "sidecar died, main is left alone", init: "s+", seen: "box s:0 a:run", want: "init-start:s#1"},
	{name: "sidecar died, Never", policy: never, init: "s+", seen: "box s:1 a:run", want: "init-start:s#1"},
	{name: "sick sidecar", init: "s+", seen: "box s:run a:run", sick: "s", want: "kill:s"},

	{name: "ephemeral", seen: "box a:run", edit: debugged, want: "start:dbg#0"},
	{name: "ephemeral beside init", init: "i", seen: "box i:run", edit: debugged, want: "start:dbg#0"},
	{name: "ephemeral runs once", seen: "box a:run dbg:1", edit: debugged},

	{name: "sick", seen: "box a:run", sick: "a", want: "kill:a"},
	{name: "image changed", seen: "box a:run", want: "kill:a",
		edit: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "new" }},
	{name: "deleted", seen: "box a:run", edit: deleted, want: "stop grace"},
	{name: "finished", seen: "box a:0", edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, want: "stop done"},
	{name: "deadline ahead", seen: "box a:run", edit: limited(4 * time.Second), again: 6 * time.Second},
	{name: "deadline over", seen: "box a:run", edit: limited(10 * time.Second), want: "stop DeadlineExceeded"},
	{name: "deadline before the pause's end", seen: "box a:1", edit: limited(4 * time.Second), pause: time.Minute, want: "wait:a",
		again: 6 * time.Second},
	{name: "deadline of a pod that has not started", seen: "box a:run",
		edit: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) }},
}

func TestPlan(t *testing.T) {
	for _, c := range planCases {
		t.Run(c.name, func(t *testing.T) {
			w := c.world()
			if c.name == "image changed" {
				w.seen.containers[0].hash = hashOf(&corev1.Container{Name: "a", Image: "old"})
			}
			got := plan(w)
			if got.words() != c.want || got.again != c.again {
				t.Errorf("plan: %q again %v, want %q again %v", got.words(), got.again, c.want, c.again)
			}
		})
	}
}

// TestPlanComesToRest plays the plans of a pod's whole life against a runtime that does what they say.
func TestPlanComesToRest(t *testing.T) {
	c := planCase{init: "i s+ j", main: "a b", policy: never}
	w := c.world()
	var story []string
	for range 20 {
		p := plan(w)
		if story = append(story, p.words()); p.stop || p.words() == "" {
			break
		}
		if p.sandbox {
			w.seen = testSight("box")
		}
		for _, s := range p.start {
			state := "0"
			if podspec.Sidecar(s.spec) {
				state = "run"
			}
			w.seen.containers = append(w.seen.containers, testSight(s.spec.Name+":"+state).containers...)
		}
	}
	want := "sandbox, init-start:i#0, init-start:s#0, init-start:j#0, start:a#0 start:b#0, stop done"
	if got := strings.ReplaceAll(strings.Join(story, ", "), "  ", " "); got != want {
		t.Errorf("the story: %s\nwant: %s", got, want)
	}
}

// Of sandboxes that ended the last one stays, and those that still have containers.
func TestSpentSandboxes(t *testing.T) {
	c := planCase{seen: "box deadbox deadbox deadbox deadbox a:run"}
	w := c.world()
	for i := range w.seen.sandboxes {
		w.seen.sandboxes[i].id = fmt.Sprint("box", i)
	}
	w.seen.sandboxes[3].uid = "other"
	w.seen.containers[0].sandbox = "box2"
	w.seen.sandboxes[0].ready = true
	if got := fmt.Sprint(spent(w)); got != "[box4]" {
		t.Errorf("%s are removed", got)
	}
}

// A container that its probe ends, and that no other outlives, ends with its pod: the event says so.
func TestWhySickOnesStop(t *testing.T) {
	for _, c := range []struct {
		planCase
		why string
	}{
		{planCase{name: "the last one", policy: never, seen: "box a:run", sick: "a"}, "Stopping container a"},
		{planCase{name: "beside one that ended", policy: never, main: "a b", seen: "box a:run b:0", sick: "a"}, "Stopping container a"},
		{planCase{name: "beside one that runs", policy: never, main: "a b", seen: "box a:run b:run", sick: "a"}, "sick"},
		{planCase{name: "one that runs again", seen: "box a:run", sick: "a"}, "sick"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p := plan(c.world()); len(p.kill) != 1 || p.kill[0].why != c.why {
				t.Errorf("the plan is %+v, want %q", p.kill, c.why)
			}
		})
	}
}

package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/node/logs"
	"github.com/kloop-dev/kloop/node/runtime"
)

func testAgent(t *testing.T) *Agent {
	dir := t.TempDir()
	return New(Config{Name: "n", Dir: dir, LogDir: filepath.Join(dir, "logs"), CgroupRoot: filepath.Join(dir, "cgroup"),
		Address: netip.MustParseAddr("10.0.0.1"),
		Runtime: &runtime.Runtime{}})
}

// brief tells a status in short: the phase, the true conditions' initials, then every container.
func brief(st corev1.PodStatus) string {
	out := string(st.Phase) + " "
	for _, initial := range []struct {
		of     corev1.PodConditionType
		letter string
	}{{corev1.PodReadyToStartContainers, "S"}, {corev1.PodInitialized, "I"}, {corev1.ContainersReady, "C"}, {corev1.PodReady, "R"}} {
		for _, c := range st.Conditions {
			if c.Type == initial.of && c.Status == corev1.ConditionTrue {
				out += initial.letter
			}
		}
	}
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for _, s := range list {
			out += " " + s.Name
			if s.Ready {
				out += "!"
			}
			out += ":"
			switch {
			case s.State.Running != nil:
				out += "Running"
			case s.State.Waiting != nil:
				out += s.State.Waiting.Reason
			case s.State.Terminated != nil:
				out += s.State.Terminated.Reason
			}
			if s.LastTerminationState.Terminated != nil {
				out += "<" + s.LastTerminationState.Terminated.Reason
			}
		}
	}
	return out
}

func TestPodStatus(t *testing.T) {
	for _, c := range []struct {
		planCase
		pausing string // containers in their pause
		want    string
	}{
		{planCase{name: "new", seen: ""}, "", "Pending I a:ContainerCreating"},
		{planCase{name: "new with init", init: "i"}, "", "Pending  i:PodInitializing a:PodInitializing"},
		{planCase{name: "init runs", init: "i", seen: "box i:run"}, "", "Pending S i:Running a:PodInitializing"},
		{planCase{name: "init done", init: "i", seen: "box i:0"}, "", "Pending SI i!:Completed a:PodInitializing"},
		{planCase{name: "init crashed", init: "i", seen: "box i:1"}, "i", "Pending S i:CrashLoopBackOff<Error a:PodInitializing"},
		{planCase{name: "init failed", policy: never, init: "i", seen: "box i:1"}, "", "Failed S i:Error a:PodInitializing"},
		{planCase{name: "sidecar starts up", init: "s+", seen: "box s:run", slow: "s"}, "", "Pending S s:Running a:PodInitializing"},
		{planCase{name: "sidecar and main", init: "s+", seen: "box s:run a:run"}, "", "Running SICR s!:Running a!:Running"},
		{planCase{name: "runs", seen: "box a:run"}, "", "Running SICR a!:Running"},
		{planCase{name: "runs, starting up", seen: "box a:run", slow: "a"}, "", "Running SI a:Running"},
		{planCase{name: "one waits", main: "a b", seen: "box a:run"}, "", "Pending SI a!:Running b:ContainerCreating"},
		{planCase{name: "ran twice", seen: "box a#1:run a:3"}, "", "Running SICR a!:Running<Error"},
		{planCase{name: "crashed", seen: "box a:1"}, "a", "Running SI a:CrashLoopBackOff<Error"},
		{planCase{name: "crashed, not yet paused", seen: "box a:1"}, "", "Running SI a:Error"},
		{planCase{name: "ended well, Never", policy: never, seen: "box a:0"}, "", "Succeeded SI a:Completed"},
		{planCase{name: "ended badly, Never", policy: never, seen: "box a:1"}, "", "Failed SI a:Error"},
		{planCase{name: "one failed of two, Never", policy: never, main: "a b", seen: "box a:1 b:0"}, "", "Failed SI a:Error b:Completed"},
		{planCase{name: "one ended of two, Never", policy: never, main: "a b", seen: "box a:0 b:run"}, "", "Running SI a:Completed b!:Running"},
		{planCase{name: "ended well, OnFailure", policy: onFailure, seen: "box a:0"}, "", "Succeeded SI a:Completed"},
		{planCase{name: "ended badly, OnFailure", policy: onFailure, seen: "box a:1"}, "", "Running SI a:Error"},
		{planCase{name: "deleted, ended", seen: "box a:137", edit: deleted}, "a", "Failed SI a:Error"},
		{planCase{name: "ended, its sidecar not yet", policy: never, init: "s+", seen: "box s:run a:0"}, "",
			"Running SI s!:Running a:Completed"},
		{planCase{name: "ended, its sidecar after it", policy: never, init: "s+", seen: "box s#1:1 a:0"}, "s",
			"Succeeded SI s:Error a:Completed"},
		{planCase{name: "init failed, a sidecar runs", policy: never, init: "s+ i", seen: "box s:run i:1"}, "",
			"Pending S s!:Running i:Error a:PodInitializing"},
		{planCase{name: "gate", seen: "box a:run", edit: func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
		}}, "", "Running SIC a!:Running"},
		{planCase{name: "gate that is open", seen: "box a:run", edit: func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
			p.Status.Conditions = []corev1.PodCondition{{Type: "x", Status: corev1.ConditionTrue}}
		}}, "", "Running SICR a!:Running"},
		{planCase{name: "gate that is shut", seen: "box a:run", edit: func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}, {ConditionType: "y"}}
			p.Status.Conditions = []corev1.PodCondition{{Type: "x", Status: corev1.ConditionTrue}, {Type: "y", Status: corev1.ConditionFalse}}
		}}, "", "Running SIC a!:Running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, w := testAgent(t), c.world()
			for _, name := range strings.Fields(c.pausing) {
				a.backoff.failed("u", name, noon.Add(-time.Second), 0)
			}
			if got := brief(a.status.podStatus(w)); got != c.want {
				t.Errorf("status: %s\nwant:   %s", got, c.want)
			}
		})
	}
}

func TestStatusDetails(t *testing.T) {
	a := testAgent(t)
	w := planCase{seen: "box a:1"}.world()
	a.backoff.failed("u", "a", noon.Add(-time.Second), 0)
	st := a.status.podStatus(w)
	if st.HostIP != "10.0.0.1" || st.PodIP != "10.1.0.9" || st.StartTime == nil || !st.StartTime.Time.Equal(noon) {
		t.Errorf("addresses and start: %+v", st)
	}
	wait := st.ContainerStatuses[0].State.Waiting
	if want := "back-off 10s restarting failed container=a pod=p_d(u)"; wait == nil || wait.Message != want {
		t.Errorf("the pause's text: %+v, want %q", wait, want)
	}
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady && (c.Reason != "ContainersNotReady" || c.Message != "containers with unready status: [a]") {
			t.Errorf("ready: %+v", c)
		}
	}
	w.pod.Status = st
	w.now = noon.Add(time.Minute)
	again := a.status.podStatus(w)
	if !again.StartTime.Time.Equal(noon) || !again.Conditions[0].LastTransitionTime.Time.Equal(noon) {
		t.Error("times move though nothing changed")
	}
}

// TestContainerIDs: those of a runtime that is not containerd bear its name.
func TestContainerIDs(t *testing.T) {
	a := testAgent(t)
	a.cfg.Runtime.Name = "cri-o"
	w := planCase{seen: "box a:0"}.world()
	id := w.seen.containers[0].id
	ended := a.status.podStatus(w).ContainerStatuses[0]
	if want := "cri-o://" + id; ended.ContainerID != want || ended.State.Terminated == nil || ended.State.Terminated.ContainerID != want {
		t.Errorf("%q, %+v; want %q", ended.ContainerID, ended.State.Terminated, want)
	}
}

func TestLastWords(t *testing.T) {
	a := testAgent(t)
	pod := testPod(never, "", "a")
	log := filepath.Join(a.cfg.Dir, "0.log")
	line := "2026-05-01T12:00:00Z stderr F "
	if err := os.WriteFile(log, []byte(line+"one\n"+line+"two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fallback := map[string]string{notePolicy: string(corev1.TerminationMessageFallbackToLogsOnError)}
	for _, c := range []struct {
		name, file string
		exit       int32
		notes      map[string]string
		want       string
	}{
		{"nothing", "", 1, nil, ""},
		{"file", "bye", 0, nil, "bye"},
		{"file before log", "bye", 1, fallback, "bye"},
		{"log of a failure", "", 1, fallback, "one\ntwo\n"},
		{"log of a success", "", 0, fallback, ""},
		{"long file", strings.Repeat("x", 5000) + "end", 0, nil, strings.Repeat("x", maxWords-3) + "end"},
		{"no text", "bye \xff\xfe", 0, nil, "bye \uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := a.lastWords(pod, "a", 0)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got := a.status.terminated(pod, &container{name: "a", exit: c.exit, notes: c.notes, log: log}).Message
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		})
	}
}

// TestLastWordsWait: the end of a log stands in for last words only when the runtime has written it.
func TestLastWordsWait(t *testing.T) {
	a := testAgent(t)
	pod := testPod(never, "", "a")
	log := filepath.Join(a.cfg.Dir, "0.log")
	synctest.Test(t, func(t *testing.T) {
		f, err := os.Create(log)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(logs.Settling/2, func() {
			fmt.Fprintln(f, "2026-05-01T12:00:00Z stderr F why")
			f.Close()
		})
		got := a.status.terminated(pod, &container{name: "a", exit: 1, done: time.Now(), log: log,
			notes: map[string]string{notePolicy: string(corev1.TerminationMessageFallbackToLogsOnError)}})
		if got.Message != "why\n" {
			t.Errorf("%q", got.Message)
		}
	})
}

// A container can make the file of its last words as large as a number can say. No more is read than is told.
func TestLastWordsWithoutEnd(t *testing.T) {
	a := testAgent(t)
	pod := testPod(never, "", "a")
	path := a.lastWords(pod, "a", 0)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<42); err != nil {
		t.Skip("the file system has no such files:", err)
	}
	if n := len(a.status.terminated(pod, &container{name: "a"}).Message); n != maxWords {
		t.Errorf("%d bytes", n)
	}
}

// All containers of a pod have room for their last words in its status.
func TestLastWordsOfMany(t *testing.T) {
	a := testAgent(t)
	pod := testPod(never, "", "a", "b", "c", "d", "e", "f")
	path := a.lastWords(pod, "a", 0)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"+strings.Repeat("é", maxWords/2)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := a.status.terminated(pod, &container{name: "a"}).Message
	if len(got) > maxAllWords/6 || len(got) < maxAllWords/6-4 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid: %t", len(got), utf8.ValidString(got))
	}
}

func TestConditionTimes(t *testing.T) {
	var st corev1.PodStatus
	setCondition(&st, corev1.PodReady, false, "x", "", 1, noon)
	setCondition(&st, corev1.PodReady, false, "y", "", 2, noon.Add(time.Minute))
	if c := st.Conditions[0]; c.Reason != "y" || !c.LastTransitionTime.Equal(&metav1.Time{Time: noon}) || c.ObservedGeneration != 2 {
		t.Errorf("same status: %+v", c)
	}
	setCondition(&st, corev1.PodReady, true, "", "", 2, noon.Add(time.Minute))
	if c := st.Conditions[0]; len(st.Conditions) != 1 || c.LastTransitionTime.Equal(&metav1.Time{Time: noon}) {
		t.Errorf("new status: %+v", st.Conditions)
	}
}

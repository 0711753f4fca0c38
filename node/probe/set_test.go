package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// script answers commands: by the name of the command, a list of letters, one for each time it is asked, the last
// one for ever. p passes, f fails, e can't be asked, t takes too long.
type script struct {
	mu    sync.Mutex
	says  map[string]string
	asked []string // command and second
	began time.Time
}

func (s *script) Exec(_ context.Context, id string, cmd []string, _ time.Duration) (int, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf("%s %v", cmd[0], time.Since(s.began)))
	says := s.says[cmd[0]]
	if len(says) > 1 {
		s.says[cmd[0]] = says[1:]
	}
	switch says[0] {
	case 'f':
		return 1, []byte("no"), nil
	case 'e':
		return 0, nil, errors.New("no runtime")
	case 't':
		return 0, nil, status.Error(codes.DeadlineExceeded, "late")
	}
	return 0, nil, nil
}

func (s *script) times(cmd string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if name, at, _ := strings.Cut(a, " "); name == cmd {
			list = append(list, at)
		}
	}
	return list
}

func command(name string, delay, period, success, failure int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}},
		InitialDelaySeconds: delay, PeriodSeconds: period, SuccessThreshold: success, FailureThreshold: failure, TimeoutSeconds: 1}
}

// A stage is a set with one container under watch, in simulated time.
type stage struct {
	*Set
	*script
	pod     *corev1.Pod
	mu      sync.Mutex
	events  []string
	changes int
}

func newStage(c *corev1.Container, says map[string]string, age time.Duration) *stage {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways}}
	s := &stage{script: &script{says: says, began: time.Now()}, pod: pod}
	s.Set = NewSet(s.script, func(string, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes++
	})
	s.Event = func(_ *corev1.Pod, _, text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, text)
	}
	s.Sync(s.pod, c, "id", "10.0.0.1", time.Now().Add(-age))
	return s
}

// expect is the state after a time. It lets everything due at that time happen first.
func (s *stage) expect(t *testing.T, after time.Duration, want string) {
	t.Helper()
	time.Sleep(time.Until(s.began.Add(after)))
	synctest.Wait()
	r, got := s.Get("id"), "-"
	switch {
	case r.Sick:
		got = "sick"
	case r.Ready && !r.Started:
		got = "ready before it has started"
	case r.Ready:
		got = "ready"
	case r.Started:
		got = "started"
	}
	if got != want {
		t.Errorf("after %v: %s, want %s", after, got, want)
	}
}

func TestWithoutProbes(t *testing.T) {
	s := newStage(&corev1.Container{Name: "c"}, nil, 0)
	defer s.Close()
	if r := s.Get("id"); !r.Started || !r.Ready || r.Sick {
		t.Errorf("%+v", r)
	}
	if r := s.Get("other"); r != (Result{}) {
		t.Errorf("unknown: %+v", r)
	}
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &corev1.Container{Name: "c", ReadinessProbe: command("ready", 3, 5, 2, 2)}
		s := newStage(c, map[string]string{"ready": "ppfpffep"}, 0)
		defer s.Close()
		s.expect(t, 2*time.Second, "started")
		s.expect(t, 3*time.Second, "started") // one pass is not enough
		s.expect(t, 8*time.Second, "ready")
		s.expect(t, 13*time.Second, "ready") // nor is one failure
		s.expect(t, 23*time.Second, "ready") // nor two with a pass between
		s.expect(t, 28*time.Second, "started")
		s.expect(t, 33*time.Second, "started") // what could not be asked is asked again at once: a first pass
		s.expect(t, 38*time.Second, "ready")
		if got := s.times("ready")[:2]; !slices.Equal(got, []string{"3s", "8s"}) {
			t.Errorf("asked at %v", got)
		}
		if s.changes != 3 {
			t.Errorf("%d changes told, want 3", s.changes)
		}
		if want := slices.Repeat([]string{"Readiness probe failed: no"}, 3); !slices.Equal(s.events, want) {
			t.Errorf("events %q", s.events)
		}
	})
}

func TestEager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &corev1.Container{Name: "c", ReadinessProbe: command("ready", 0, 10, 1, 1)}
		s := newStage(c, map[string]string{"ready": "fffpf"}, 0)
		defer s.Close()
		s.expect(t, 1700*time.Millisecond, "started")
		s.expect(t, 1800*time.Millisecond, "ready")
		s.expect(t, 9*time.Second, "ready")
		s.expect(t, 10*time.Second, "started")
		s.expect(t, 29*time.Second, "started")
		if got, want := s.times("ready"), []string{"0s", "250ms", "750ms", "1.75s", "10s", "20s"}; !slices.Equal(got, want) {
			t.Errorf("asked at %v, want %v", got, want)
		}
		if len(s.events) != 3 { // of 0, 10 and 20 s
			t.Errorf("events %q", s.events)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one that never passes is soon left to its period; failures in between don't count
		c := &corev1.Container{Name: "c", StartupProbe: command("up", 0, 10, 1, 4)}
		s := newStage(c, map[string]string{"up": "f"}, 0)
		defer s.Close()
		s.expect(t, 29*time.Second, "-")
		s.expect(t, 30*time.Second, "sick")
		if got, want := s.times("up"), []string{"0s", "250ms", "750ms", "1.75s", "3.75s", "7.75s", "10s", "20s",
			"30s"}; !slices.Equal(got, want) {
			t.Errorf("asked at %v, want %v", got, want)
		}
	})
}

func TestLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grace := int64(7)
		c := &corev1.Container{Name: "web", LivenessProbe: command("live", 0, 10, 1, 3)}
		c.LivenessProbe.TerminationGracePeriodSeconds = &grace
		s := newStage(c, map[string]string{"live": "pffptff"}, 0)
		defer s.Close()
		s.expect(t, 50*time.Second, "ready")
		s.expect(t, 60*time.Second, "sick")
		if r := s.Get("id"); r.Why != "Container web failed liveness probe, will be restarted" || r.Grace == nil || *r.Grace != 7 {
			t.Errorf("%+v", r)
		}
		s.expect(t, 100*time.Second, "sick")
		if n := len(s.times("live")); n != 7 {
			t.Errorf("asked %d times: a sick container is not asked again", n)
		}
		if s.changes != 1 || !slices.Contains(s.events, `Liveness probe failed: command timed out: "live" timed out after 1s`) {
			t.Errorf("%d changes, events %q", s.changes, s.events)
		}
	})
}

// Answers are counted until the pod goes.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(&corev1.Container{Name: "c", LivenessProbe: command("live", 0, 1, 1, 3)}, map[string]string{"live": "f"}, 0)
		defer s.Close()
		s.expect(t, 10*time.Second, "sick")
		if list := s.Counts(); len(list) != 1 || list[Count{"ns", "p", "u", "c", "Liveness", "failed"}] != 3 {
			t.Errorf("%v", list)
		}
		s.StopPod("u")
		if list := s.Counts(); len(list) != 0 {
			t.Errorf("of a pod that has gone: %v", list)
		}
	})
}

func TestErrorsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(&corev1.Container{Name: "c", LivenessProbe: command("live", 0, 1, 1, 1)}, map[string]string{"live": "e"}, 0)
		defer s.Close()
		s.expect(t, 10*time.Second, "ready")
		if len(s.events) == 0 || s.events[0] != "Liveness probe errored and resulted in unknown state: no runtime" {
			t.Errorf("events %q", s.events)
		}
	})
}

func TestStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &corev1.Container{Name: "c", StartupProbe: command("up", 0, 2, 1, 5), LivenessProbe: command("live", 3, 1, 1, 1),
			ReadinessProbe: command("ready", 0, 1, 1, 1)}
		s := newStage(c, map[string]string{"up": "fffp", "live": "p", "ready": "p"}, 0)
		defer s.Close()
		s.expect(t, 1700*time.Millisecond, "-")
		if len(s.times("live"))+len(s.times("ready")) > 0 {
			t.Errorf("asked before it has started up: %v", s.asked)
		}
		s.expect(t, 1800*time.Millisecond, "ready")
		s.expect(t, 20*time.Second, "ready")
		if n := len(s.times("up")); n != 4 {
			t.Errorf("asked %d times whether it has started", n)
		}
		if len(s.times("live")) < 10 {
			t.Error("liveness is not asked")
		}
	})
}

func TestStartupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &corev1.Container{Name: "c", StartupProbe: command("up", 1, 2, 1, 3), LivenessProbe: command("live", 0, 1, 1, 1)}
		s := newStage(c, map[string]string{"up": "f", "live": "p"}, 0)
		defer s.Close()
		s.expect(t, 4*time.Second, "-")
		s.expect(t, 5*time.Second, "sick")
		if r := s.Get("id"); r.Why != "Container c failed startup probe, will be restarted" {
			t.Errorf("%+v", r)
		}
	})
}

// The event of a container that is stopped says whether it is started again.
func TestWhatFailedProbesSay(t *testing.T) {
	c, always := corev1.Container{Name: "c"}, corev1.ContainerRestartPolicyAlways
	side := corev1.Container{Name: "s", RestartPolicy: &always}
	for _, x := range []struct {
		name   string
		policy corev1.RestartPolicy
		of     *corev1.Container
		kind   kind
		want   string
	}{
		{"restarted", corev1.RestartPolicyAlways, &c, liveness, "Container c failed liveness probe, will be restarted"},
		{"after a failure", corev1.RestartPolicyOnFailure, &c, startup, "Container c failed startup probe, will be restarted"},
		{"not restarted", corev1.RestartPolicyNever, &c, liveness, "Container c failed liveness probe"},
		{"sidecar", corev1.RestartPolicyNever, &side, startup, "Init container s failed startup probe"},
	} {
		t.Run(x.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: x.policy, InitContainers: []corev1.Container{side},
				Containers: []corev1.Container{c}}}
			if got := gaveUp(pod, x.of, x.kind); got != x.want {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(&corev1.Container{Name: "c", ReadinessProbe: command("ready", 5, 1000, 1, 1)}, map[string]string{"ready": "p"},
			24*time.Hour)
		defer s.Close()
		s.expect(t, 1000*time.Second, "ready")
		if n := len(s.times("ready")); n == 0 || n > 2 {
			t.Errorf("asked %d times in the first period", n)
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &corev1.Container{Name: "c", LivenessProbe: command("live", 0, 1, 1, 1), ReadinessProbe: command("ready", 0, 1, 1, 1)}
		s := newStage(c, map[string]string{"live": "pppppf", "ready": "ppppppppfffp"}, 0)
		defer s.Close()
		s.expect(t, 4500*time.Millisecond, "ready")
		n := len(s.times("live"))
		s.Stop("id")
		s.Sync(s.pod, c, "id", "", s.began)
		s.expect(t, 7500*time.Millisecond, "ready")   // it serves on while it is being stopped
		s.expect(t, 9500*time.Millisecond, "started") // until it says that it does not
		s.expect(t, 15*time.Second, "ready")
		if len(s.times("live")) != n {
			t.Error("asked after Stop whether it lives")
		}
		n = len(s.times("ready"))
		s.End("id")
		s.Sync(s.pod, c, "id", "", s.began)
		s.expect(t, 20*time.Second, "ready") // its last answer stays
		if len(s.times("ready")) != n {
			t.Error("asked after End")
		}
		s.Sync(s.pod, c, "id2", "", time.Now()) // the next container of the name
		synctest.Wait()
		if r := s.Get("id"); r != (Result{}) {
			t.Errorf("the one before is still known: %+v", r)
		}
		if r := s.Get("id2"); !r.Ready {
			t.Errorf("the next one: %+v", r)
		}
		s.StopPod("u")
		n = len(s.times("ready"))
		time.Sleep(time.Minute)
		if r := s.Get("id2"); r != (Result{}) || len(s.times("ready")) != n {
			t.Errorf("after StopPod: %+v", r)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a goroutine that stays fails the test
		c := &corev1.Container{Name: "c", StartupProbe: command("up", 0, 1, 1, 1000), LivenessProbe: command("live", 0, 1, 1, 1)}
		s := newStage(c, map[string]string{"up": "f"}, 0)
		time.Sleep(3 * time.Second)
		s.Close()
		s.Sync(s.pod, &corev1.Container{Name: "x"}, "late", "", time.Now())
		if r := s.Get("late"); r != (Result{}) {
			t.Errorf("a closed set watches: %+v", r)
		}
	})
}

// TestAgentStartsAnew: what the status says of the very container is where the answers go on from.
func TestAgentStartsAnew(t *testing.T) {
	c := &corev1.Container{Name: "c", StartupProbe: command("up", 0, 10, 1, 3), ReadinessProbe: command("ready", 0, 10, 1, 1)}
	yes := true
	for _, tt := range []struct {
		name   string
		status corev1.ContainerStatus
		want   Result
	}{
		{"ready before", corev1.ContainerStatus{ContainerID: "containerd://id", Started: &yes, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, Result{Started: true, Ready: true}},
		{"started before", corev1.ContainerStatus{ContainerID: "containerd://id", Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, Result{Started: true}},
		{"another container", corev1.ContainerStatus{ContainerID: "containerd://old", Started: &yes, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, Result{}},
		{"not running", corev1.ContainerStatus{ContainerID: "containerd://id", Started: &yes, Ready: true}, Result{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewSet(&script{says: map[string]string{"up": "f", "ready": "f"}}, func(string, string) {})
				defer s.Close()
				pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tt.status}}}
				s.Sync(pod, c, "id", "", time.Now().Add(-time.Hour))
				if got := s.Get("id"); got != tt.want {
					t.Errorf("%+v: %+v, want %+v", tt.status, got, tt.want)
				}
				time.Sleep(11 * time.Second)
				if r := s.Get("id"); r.Ready || r.Sick {
					t.Errorf("%+v: a period later: %+v", tt.status, r)
				}
				if n := len(s.target.(*script).times("up")); tt.want.Started && n > 0 {
					t.Errorf("asked %d times whether it has started", n)
				}
			})
		})
	}
}

// TestClockSetBack: a container that began in the future, by a clock that was set back since, is asked as soon as another.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{says: map[string]string{"r": "p"}, began: time.Now()}
		set := NewSet(s, nil)
		defer set.Close()
		c := &corev1.Container{Name: "c", ReadinessProbe: command("r", 5, 10, 1, 3)}
		set.Sync(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, c, "id", "", time.Now().Add(time.Hour))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if !set.Get("id").Ready {
			t.Errorf("it was asked at %v", s.times("r"))
		}
	})
}

package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stages adds to a list of what a container's status told of its states, each once in a row.
func stages(list []string, pod *corev1.Pod) []string {
	if len(pod.Status.ContainerStatuses) == 0 {
		return list
	}
	s, now := pod.Status.ContainerStatuses[0], ""
	switch {
	case s.State.Waiting != nil:
		now = s.State.Waiting.Reason
	case s.State.Terminated != nil:
		now = s.State.Terminated.Reason
	case s.State.Running != nil:
		now = "Running"
	}
	if last := s.LastTerminationState.Terminated; last != nil {
		now += "<" + last.Reason
	}
	if now = fmt.Sprintf("%s#%d", now, s.RestartCount); len(list) == 0 || list[len(list)-1] != now {
		list = append(list, now)
	}
	return list
}

// A container that can't be started, or whose post-start hook fails, waits for its next start with the reason, at first at once and then as
// any other that crashes.
func TestFailedStarts(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  corev1.RestartPolicy
		hook    bool // it is the hook that fails
		want    string
		message string
	}{
		{"can't start", corev1.RestartPolicyAlways, false,
			"ContainerCreating#0 RunContainerError<StartError#0 CrashLoopBackOff<StartError#1 CrashLoopBackOff<StartError#2", "no such file"},
		{"can't start, and isn't to again", corev1.RestartPolicyNever, false, "ContainerCreating#0 StartError#0", ""},
		{"hook", corev1.RestartPolicyAlways, true,
			"ContainerCreating#0 PostStartHookError<Error#0 CrashLoopBackOff<Error#1 CrashLoopBackOff<Error#2",
			`Exec lifecycle hook ([/bin/hook -x]) for Container "a" in Pod "p_d(UID)" failed - error: command '/bin/hook -x' exited with 4: , ` +
				"message: \"oops\\n\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				var seen, texts []string
				look := func() {
					p := r.get("p")
					if seen = stages(seen, p); len(p.Status.ContainerStatuses) == 0 {
						return
					}
					if w := p.Status.ContainerStatuses[0].State.Waiting; w != nil && strings.HasSuffix(w.Reason, "Error") {
						texts = append(texts, strings.ReplaceAll(w.Message, string(p.UID), "UID"))
					}
				}
				r.rt.mu.Lock()
				r.rt.fits = func(int64) error { // with every start
					if look(); c.hook {
						return nil
					}
					return errors.New("no such file")
				}
				r.rt.exec = func(*cri.ExecSyncRequest) *cri.ExecSyncResponse {
					return &cri.ExecSyncResponse{ExitCode: 4, Stdout: []byte("oops\n")}
				}
				r.rt.mu.Unlock()
				r.pod("p", func(p *corev1.Pod) {
					p.Spec.RestartPolicy = c.policy
					if c.hook {
						p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
							Exec: &corev1.ExecAction{Command: []string{"/bin/hook", "-x"}}}}
					}
				}, "a")
				for _, d := range []time.Duration{5 * time.Second, 10 * time.Second} {
					r.rests(d)
					r.rt.mu.Lock()
					look()
					r.rt.mu.Unlock()
				}
				if got := strings.Join(seen, " "); got != c.want {
					t.Errorf("its status told %s, want %s", got, c.want)
				}
				if texts = slices.Compact(texts); strings.Join(texts, "|") != c.message {
					t.Errorf("it told why: %q, want %q", texts, c.message)
				}
			})
		})
	}
}

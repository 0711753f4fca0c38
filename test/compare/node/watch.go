package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A witness sees how the parts of a pod's status change. Each part has a course of its own: writes that one agent joins and the other
// makes apart are no difference.
type witness struct {
	mu    sync.Mutex
	parts map[string][]string
}

func newWitness(ctx context.Context, c *cluster, ns string) *witness {
	w := &witness{parts: map[string][]string{}}
	stream, err := c.client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		w.note("watch", err.Error())
		return w
	}
	go func() {
		defer stream.Stop()
		for e := range stream.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				w.see(string(e.Type), pod)
			}
		}
	}()
	return w
}

func (w *witness) note(part, now string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if course := w.parts[part]; len(course) == 0 || course[len(course)-1] != now {
		w.parts[part] = append(course, now)
	}
}

func (w *witness) see(event string, pod *corev1.Pod) {
	if pod.Name != podName {
		return // it is there before
	}
	if event == "DELETED" {
		w.note("phase", "gone")
		return
	}
	w.note("phase", string(pod.Status.Phase))
	for _, c := range pod.Status.Conditions {
		w.note("condition "+string(c.Type), string(c.Status)+" "+c.Reason)
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses} {
		for _, c := range list {
			w.note("container "+c.Name, state(c.State))
			w.note("restarts "+c.Name, fmt.Sprint(c.RestartCount))
		}
	}
}

func state(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("ended %s %d", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Waiting != nil:
		return "waits " + s.Waiting.Reason
	}
	return "nothing"
}

// courses has a line for each part, with all that it went through.
func (w *witness) courses() (list record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for part, course := range w.parts {
		course = slices.Compact(lasting(course))
		if strings.HasSuffix(part, "Ready") { // how often depends on how soon after its end a container runs again
			course = unique(course)
		}
		lines = append(lines, part+": "+strings.Join(course, " → "))
	}
	slices.Sort(lines)
	return record{{"courses", lines}}
}

// lasting is a course without ends that something followed: whether an agent writes of them is a matter of time.
func lasting(course []string) (kept []string) {
	for i, c := range course {
		if i == len(course)-1 || !strings.HasPrefix(c, "ended ") {
			kept = append(kept, c)
		}
	}
	return kept
}

// unique is a course without what came a second time.
func unique(course []string) (kept []string) {
	for _, c := range course {
		if !slices.Contains(kept, c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// until waits for something: gone, ready, phase=PHASE, event=REASON, condition=TYPE (true), or CONTAINER:waits=REASON, :running, :ended,
// :restarts=NUMBER.
func (p *play) until(ctx context.Context, what string) error {
	for end := time.Now().Add(patience); ; pause(ctx, 100*time.Millisecond) {
		pod, err := p.read(ctx)
		switch {
		case apierrors.IsNotFound(err):
			if what == "gone" {
				return nil
			}
		case err != nil:
			return err
		case what != "gone" && p.has(ctx, pod, what):
			return nil
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("%s did not come", what)
		}
	}
}

func (p *play) has(ctx context.Context, pod *corev1.Pod, what string) bool {
	container, of, inside := strings.Cut(what, ":")
	if inside {
		return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
			pod.Status.EphemeralContainerStatuses), func(c corev1.ContainerStatus) bool { return c.Name == container && is(c, of) })
	}
	name, value, _ := strings.Cut(what, "=")
	switch name {
	case "phase":
		return string(pod.Status.Phase) == value
	case "ready", "condition":
		want := corev1.PodConditionType(value)
		if name == "ready" {
			want = corev1.PodReady
		}
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == want && c.Status == "True" })
	case "event":
		list, err := p.client.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Reason == value })
	}
	return false
}

func is(c corev1.ContainerStatus, what string) bool {
	name, value, _ := strings.Cut(what, "=")
	switch name {
	case "running":
		return c.State.Running != nil
	case "ended":
		return c.State.Terminated != nil
	case "waits":
		return c.State.Waiting != nil && c.State.Waiting.Reason == value
	case "restarts":
		return fmt.Sprint(c.RestartCount) == value
	}
	return false
}

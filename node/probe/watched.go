package probe

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A watched is one container with its answers.
type watched struct {
	set     *Set
	uid     types.UID
	spec    *corev1.Container
	id      string
	started time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	vital   context.Context // ends when the container is being stopped: from then on only its readiness counts
	calm    context.CancelFunc
	up      chan struct{} // closed when it has started up
	resumed bool          // it had started up when it came under watch, as far as anybody asks

	mu     sync.Mutex
	pod    *corev1.Pod
	ip     string
	result Result
}

func newWatched(s *Set, pod *corev1.Pod, c *corev1.Container, id, ip string, started time.Time) *watched {
	w := &watched{set: s, uid: pod.UID, spec: c, id: id, started: started, up: make(chan struct{}), pod: pod, ip: ip}
	w.ctx, w.cancel = context.WithCancel(s.ctx)
	w.vital, w.calm = context.WithCancel(w.ctx)
	was := told(pod, id)
	w.result.Started = c.StartupProbe == nil || was.Started != nil && *was.Started
	w.result.Ready = w.result.Started && (c.ReadinessProbe == nil || was.Ready)
	if w.result.Started {
		w.resumed = true
		close(w.up)
	}
	return w
}

// told is the container's state in the pod's status, if it is known there: then an agent that starts anew goes on
// with the last answers, and the container does not lose its traffic until it is asked again.
func told(pod *corev1.Pod, id string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if _, known, _ := strings.Cut(list[i].ContainerID, "://"); known == id && list[i].State.Running != nil {
				return list[i]
			}
		}
	}
	return corev1.ContainerStatus{}
}

func (w *watched) probers() (list []*prober) {
	add := func(k kind, p *corev1.Probe) {
		if p != nil {
			list = append(list, newProber(w, k, p))
		}
	}
	if !w.result.Started {
		add(startup, w.spec.StartupProbe)
	}
	add(liveness, w.spec.LivenessProbe)
	add(readiness, w.spec.ReadinessProbe)
	return list
}

func (w *watched) renew(pod *corev1.Pod, ip string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pod, w.ip = pod, ip
}

func (w *watched) now() (*corev1.Pod, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.ip
}

func (w *watched) get() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result
}

// put changes the result, and tells if that made a difference.
func (w *watched) put(change func(r *Result)) {
	w.mu.Lock()
	was := w.result
	if w.ctx.Err() == nil { // an answer that came too late is no answer
		change(&w.result)
	}
	same, pod := was == w.result, w.pod
	w.mu.Unlock()
	if !same && w.set.changed != nil {
		w.set.changed(pod.Namespace, pod.Name)
	}
}

// begun notes that the container has started up.
func (w *watched) begun() {
	w.put(func(r *Result) {
		r.Started = true
		r.Ready = w.spec.ReadinessProbe == nil
	})
	close(w.up)
}

// Package probe asks containers how they are: startup, liveness and readiness probes by command, HTTP, TCP and
// gRPC. It keeps the last answers; what follows from them is the agent's to decide.
//
// Every probe of a running container is one goroutine, which ends with its container, its pod or the set.
package probe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Target runs commands in containers. The output holds what the command wrote, cut to a sensible length; an error
// means that it could not be run, or (a gRPC DeadlineExceeded or the context's error) that it took too long.
type Target interface {
	Exec(ctx context.Context, id string, cmd []string, timeout time.Duration) (exit int, out []byte, err error)
}

// A Result holds the findings of one container's probes so far.
type Result struct {
	Started bool   // it has started up
	Ready   bool   // it wants traffic; never true before Started
	Sick    bool   // it must be restarted
	Why     string // of Sick: text for the event
	Grace   *int64 // of Sick: seconds to stop in, where the probe asks for its own
}

// A Set watches containers. Its methods are safe for concurrent use; the hooks are set before the first Sync.
type Set struct {
	// Event is called for every failed probe, for an event Unhealthy of the pod; it may be nil.
	Event func(pod *corev1.Pod, container, text string)
	// Warning is called for probes that passed with a remark, for an event ProbeWarning; it may be nil.
	Warning func(pod *corev1.Pod, container, text string)

	target  Target
	changed func(ns, name string)
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu   sync.Mutex
	byID map[string]*watched

	tally map[Count]uint64
}

// A Count tells one sort of a container's answers to its probes from others.
type Count struct {
	Namespace, Pod string
	UID            types.UID
	Container      string
	Kind           string // Startup, Liveness, Readiness
	Result         string // successful, failed, unknown
}

// Counts returns how often probes of containers that are watched were answered so.
func (s *Set) Counts() map[Count]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.tally)
}

func (s *Set) count(pod *corev1.Pod, container string, k kind, a answer) {
	c := Count{pod.Namespace, pod.Name, pod.UID, container,
		string(k),
		map[answer]string{passed: "successful", failed: "failed", unknown: "unknown"}[a]}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil && slices.ContainsFunc(slices.Collect(maps.Values(s.byID)), func(w *watched) bool { return w.uid == pod.UID }) {
		s.tally[c]++ // else the pod has gone meanwhile
	}
}

// NewSet returns a set that watches nothing yet. changed is called, from any goroutine, when the Result of a
// container of the named pod has changed.
func NewSet(target Target, changed func(ns, name string)) *Set {
	ctx, cancel := context.WithCancel(context.Background())
	return &Set{target: target, changed: changed, ctx: ctx, cancel: cancel, byID: map[string]*watched{}, tally: map[Count]uint64{}}
}

// Sync watches the running container id of the pod, reached at ip, that runs since started. Calling it again
// costs little and only renews what is known of the pod. A container that Stop has let go stays so.
func (s *Set) Sync(pod *corev1.Pod, c *corev1.Container, id string, ip string, started time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	if w := s.byID[id]; w != nil {
		w.renew(pod, ip)
		return
	}
	s.dropOld(pod.UID, c.Name)
	w := newWatched(s, pod, c, id, ip, started)
	s.byID[id] = w
	for _, p := range w.probers() {
		s.wg.Go(func() { p.run(p.life()) })
	}
}

// dropOld forgets earlier containers of the same name in the pod.
func (s *Set) dropOld(uid types.UID, name string) {
	for id, w := range s.byID {
		if w.uid == uid && w.spec.Name == name {
			w.cancel()
			delete(s.byID, id)
		}
	}
}

// Stop ends the liveness and startup probes of a container that is being stopped. Whether it is ready is asked on, as in the kubelet:
// it may serve to its end, or say that it does not.
func (s *Set) Stop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.byID[id]; w != nil {
		w.calm()
	}
}

// End ends all probes of a container that has ended. Its last Result stays until StopPod, or until a new container takes its place.
func (s *Set) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.byID[id]; w != nil {
		w.cancel()
	}
}

// StopPod ends the probes of all the pod's containers and forgets their Results.
func (s *Set) StopPod(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.byID {
		if w.uid == uid {
			w.cancel()
			delete(s.byID, id)
		}
	}
	maps.DeleteFunc(s.tally, func(c Count, _ uint64) bool { return c.UID == uid })
}

// Close ends all probes and waits for them. The set is of no use afterwards.
func (s *Set) Close() {
	s.mu.Lock()
	s.cancel()
	clear(s.byID)
	s.mu.Unlock()
	s.wg.Wait()
}

// Get returns what is known of a container. One that was never given to Sync is neither started nor ready; one
// without probes is both.
func (s *Set) Get(id string) Result {
	s.mu.Lock()
	w := s.byID[id]
	s.mu.Unlock()
	if w == nil {
		return Result{}
	}
	return w.get()
}

package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// An admitter lets pods in, or says why not: the node's admission. A pod that was let in stays so; its status says it by a start time.
type admitter struct {
	*common
	evict *evictor
	alloc *allocations

	mu       sync.Mutex         // held while the node's room is judged and given away, to new pods and to those that are resized
	admitted map[types.UID]bool // pods let in, until their status says so
}

// rejection says why a new pod can't be let in; nil: it is in. wait: it will be, when pods that give way to it have ended.
func (m *admitter) rejection(ctx context.Context, w world) (r *Rejection, wait bool) {
	if !w.seen.empty() || w.pod.Status.StartTime != nil || w.pod.DeletionTimestamp != nil || core.Terminal(w.pod) {
		return nil, false
	}
	if m.in(w.pod.UID) {
		return nil, false
	}
	r = cmp.Or(m.evict.pressed(w.pod), forbiddenSysctl(w.pod, m.cfg.AllowedSysctls), foreign(w.pod))
	if r == nil {
		r = m.hardware.refuse(ctx, w.pod) // asks plugins: other pods need not wait for it
	}
	if r != nil {
		return r, false
	}
	if r, wait = m.room(w); r != nil && !wait {
		m.hardware.free(w.pod.UID)
	}
	return r, wait
}

func (m *admitter) in(pod types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admitted[pod]
}

// room lets a pod in if there is room for it beside the others.
func (m *admitter) room(w world) (r *Rejection, wait bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.pods()
	maps.DeleteFunc(m.admitted, func(uid types.UID, _ bool) bool {
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.UID == uid })
	})
	others := slices.DeleteFunc(slices.Clone(all), func(p *corev1.Pod) bool {
		return p.UID == w.pod.UID || core.Terminal(p) || p.Status.StartTime == nil && !m.admitted[p.UID]
	})
	if r, wait = m.judge(w.pod, others); r == nil && !wait {
		m.admitted[w.pod.UID] = true
	}
	return r, wait
}

// judge asks one predicate of the others after the other, in the kubelet's order. A critical pod that finds no room makes others give way.
func (m *admitter) judge(pod *corev1.Pod, others []*corev1.Pod) (r *Rejection, wait bool) {
	in := func(p *corev1.Pod) bool { return p.UID != pod.UID }
	for i, p := range others {
		others[i] = m.alloc.granted(p)
	}
	if r := Admit(pod, others, m.allocatable(), in); r != nil {
		victims := preempted(pod, others, m.allocatable())
		for _, v := range victims {
			m.evict.preempt(v, pod)
		}
		return r, len(victims) > 0
	}
	if r := takenPort(pod, others); r != nil {
		return r, false
	}
	if n := resource.Get(m.cfg.Client.Read(), kinds.Nodes, "", m.cfg.Name); n != nil {
		if r := cmp.Or(unwanted(pod, n), overgrouped(pod, n)); r != nil {
			return r, false
		}
	}
	if m.down.Load() {
		return &Rejection{"NodeShutdown", "Pod was rejected as the node is shutting down."}, false
	}
	return unarmored(pod, appArmorProfiles), false
}

// systemCritical is the least priority of pods that a node can't do without.
const systemCritical = 2000000000

// critical says that other pods give way to the pod.
func critical(p *corev1.Pod) bool {
	_, static := p.Annotations[mirrorNote]
	return static || p.Spec.Priority != nil && *p.Spec.Priority >= systemCritical
}

// preempted chooses the pods that give way to a critical one: those of the least worth, and no more than needed. None when they would
// not be enough.
func preempted(pod *corev1.Pod, others []*corev1.Pod, allocatable corev1.ResourceList) (victims []*corev1.Pod) {
	if !critical(pod) {
		return nil
	}
	worth := map[corev1.PodQOSClass]int{corev1.PodQOSBestEffort: 0, corev1.PodQOSBurstable: 1, corev1.PodQOSGuaranteed: 2}
	order := slices.SortedFunc(slices.Values(others), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(a), corev1helpers.PodPriority(b)),
			cmp.Compare(worth[a.Status.QOSClass], worth[b.Status.QOSClass]))
	})
	in := func(p *corev1.Pod) bool { return p.UID != pod.UID }
	rest := slices.Clone(others)
	for _, v := range order {
		if critical(v) {
			continue
		}
		victims, rest = append(victims, v), without(rest, v)
		if Admit(pod, rest, allocatable, in) != nil {
			continue
		}
		for i := len(victims) - 1; i >= 0; i-- { // those of the most worth are spared if the others are enough
			if spared := append(slices.Clone(rest), victims[i]); Admit(pod, spared, allocatable, in) == nil {
				rest, victims = spared, slices.Delete(victims, i, i+1)
			}
		}
		return victims
	}
	return nil
}

func without(list []*corev1.Pod, p *corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(list), func(o *corev1.Pod) bool { return o == p })
}

package node

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/node/pressure"
)

// An eviction is the node's decision that a pod ends, and how its status tells it.
type eviction struct {
	reason, message string
	grace           int64     // seconds
	disruption      string    // text of the condition DisruptionTarget; "": it has none
	until           time.Time // it should have ended by then
}

// endsWithin is the time that an evicted pod's end may take beyond its grace before the next pod is chosen.
const endsWithin = 30 * time.Second

// An evictor ends pods for the node's sake. Its decisions are kept until the pod's status tells them; an agent that starts anew decides
// anew.
type evictor struct {
	*common

	mu    sync.Mutex
	of    map[types.UID]*eviction
	short []corev1.NodeConditionType // what the node lacks now
}

// get returns the decision about the pod; nil: it may run.
func (e *evictor) get(uid types.UID) *eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[uid]
}

// put decides that the pod ends. false: that was decided before.
func (e *evictor) put(p *corev1.Pod, v *eviction) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of[p.UID] != nil {
		return false
	}
	v.until = time.Now().Add(time.Duration(min(v.grace, maxGrace))*time.Second + endsWithin)
	e.of[p.UID] = v
	e.patience.ends(p.UID)
	e.wake(p.Namespace, p.Name, v.reason)
	return true
}

func (e *evictor) forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, uid)
}

// preempt ends a pod so that a critical one finds room.
func (e *evictor) preempt(victim, by *corev1.Pod) {
	if e.put(victim, &eviction{reason: "Preempting", message: "Preempted in order to admit critical pod", grace: 1,
		disruption: "Pod was preempted by Kubelet to accommodate a critical pod."}) {
		e.meter.Preempted("unknown")
		e.event(victim, "", corev1.EventTypeWarning, "Preempting", "Preempted by pod: %s to free up node resources", by.UID)
	}
}

// shortage sets what the node lacks, and returns what it lacked before.
func (e *evictor) shortage(now []corev1.NodeConditionType) (before []corev1.NodeConditionType) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, e.short = e.short, now
	return before
}

// lacks says whether a pressure condition holds.
func (e *evictor) lacks(c corev1.NodeConditionType) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.short, c)
}

// pressed refuses new pods while the node lacks memory, disk or process numbers.
func (e *evictor) pressed(pod *corev1.Pod) *Rejection {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !pressure.Refuses(pod, critical(pod), e.short) {
		return nil
	}
	return &Rejection{"Evicted", fmt.Sprintf("The node had condition: %v. ", e.short)}
}

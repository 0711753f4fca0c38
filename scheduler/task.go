package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// stage says where a pod stands: with its node, or in which part of the queue.
type stage uint8

const (
	placed        stage = iota // on a node, or finished with being ours
	active                     // to be decided next
	inBackoff                  // tried in vain, due again at a time
	unschedulable              // fits nowhere; waits for a change that could help
	gated                      // held back by its own gates
	binding                    // decided; the write is on its way
)

// A task is a pod as the scheduler sees it.
type task struct {
	pod   *corev1.Pod
	class *podClass
	need  *need // the class's, unless the pod is being resized

	stage   stage
	node    int  // where it is counted; -1: nowhere
	at      int  // in the node's list
	counted bool // in the counters of living pods
	gone    bool // deleted while its write was on its way
	nominee int  // the node that it waits for after preemption; -1: none

	queuedAt           time.Time // in the queue
	seq                int64     // breaks ties of queuedAt
	backoffUntil       time.Time // when in backoff
	strict             bool      // backs off after an error: not to be tried before its time
	index              int       // in the heap that it is in
	attempts           int
	wakes              event        // what may help it when unschedulable
	lastStatus         string       // what was last to be written into its status
	saidAt             int64        // the revision from which on it has that; 0: it is not written yet
	statusInFlight     bool         // its status is being written
	nominating         bool         // its nomination is to be written
	afterStatus        func()       // what waits for that
	nextStatus         *statusWrite // to be written after that
	evicting           bool         // is being removed to make room
	unschedulableSince time.Time
	plan               *volumePlan
	devices            *devicePlan
	bindBy             time.Time // when waiting for volumes
}

type key = types.NamespacedName

func keyOf(p *corev1.Pod) key { return key{Namespace: p.Namespace, Name: p.Name} }

package node

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/node/probe"
)

// A stopper stops containers: with their pre-stop hooks, within their grace, sidecars last.
type stopper struct {
	*common
	probes *probe.Set

	mu       sync.Mutex
	stopping map[types.UID]*ending // pods whose containers are being stopped
}

// An ending is a pod whose containers are being stopped in the background: stopping takes as long as the pod's
// grace, and the loop must stay able to answer meanwhile.
type ending struct {
	grace  int64
	began  time.Time // the first attempt
	cancel context.CancelFunc
	done   chan struct{}
	again  time.Time // set before done: it failed, and is tried again then
}

// maxGrace is some seventy years, in seconds: more than that is no time.Duration any more.
const maxGrace = math.MaxInt32

// graceOf is the number of seconds that the pod's containers have to stop by themselves.
func graceOf(pod *corev1.Pod, asked *int64) int64 {
	grace := int64(30)
	switch {
	case asked != nil:
		grace = *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return min(max(grace, 1), maxGrace)
}

// stopAgain is the pause after containers could not be stopped.
const stopAgain = 10 * time.Second

// stopAll begins to stop the pod's containers, or begins anew when there is less time than before. again: it failed, and is to be tried
// then.
func (sp *stopper) stopAll(pod *corev1.Pod, seen runtimeState, grace int64) (again time.Duration, err error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if e := sp.stopping[pod.UID]; e != nil {
		select {
		case <-e.done:
			if left := time.Until(e.again); left > 0 && grace >= e.grace {
				return left, nil
			}
		default:
			if grace >= e.grace {
				return 0, nil
			}
			e.cancel()
		}
	}
	const beyond = 60 // seconds that the runtime has to say that it is done
	stop, cancel := context.WithCancel(context.Background())
	e := &ending{grace: grace, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	if was := sp.stopping[pod.UID]; was != nil {
		e.began = was.began
	}
	if !sp.tasks.begin(func(run context.Context) {
		ctx, over := context.WithTimeout(run, time.Duration(grace+beyond)*time.Second)
		defer over()
		defer context.AfterFunc(stop, over)()
		defer cancel()
		err := sp.stopContainers(ctx, pod, seen, grace)
		if err != nil && stop.Err() == nil && run.Err() == nil {
			e.again = time.Now().Add(stopAgain)
			sp.log.Warn("stop the containers", "object", "pod/"+pod.Namespace+"/"+pod.Name, "again", stopAgain, "err", err)
			sp.event(pod, "", corev1.EventTypeWarning, "FailedKillPod", "error killing pod: %v", err)
		}
		close(e.done)
		sp.wake(pod.Namespace, pod.Name, "containers stopped")
	}) {
		cancel()
		return 0, errOver
	}
	sp.stopping[pod.UID] = e
	return 0, nil
}

// errOver says that the agent is ending: the next one goes on.
var errOver = errors.New("the agent ends")

// busy says that the pod's containers are still being stopped.
func (sp *stopper) busy(uid types.UID) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	e := sp.stopping[uid]
	if e == nil {
		return false
	}
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

// since returns the time from which the pod's containers have been stopped; zero: they have not been, as far as this agent knows.
func (sp *stopper) since(uid types.UID) (t time.Time) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if e := sp.stopping[uid]; e != nil {
		t = e.began
	}
	return t
}

func (sp *stopper) forget(uid types.UID) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	delete(sp.stopping, uid)
}

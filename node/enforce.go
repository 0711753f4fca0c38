package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/pressure"
)

// How often the limits of the pods' common cgroups are set anew, and how long changes of pods are gathered before that.
const (
	enforceEvery = time.Minute
	enforceRest  = time.Second
)

// An enforcer holds all pods together to what the node can spare (Node Allocatable), and weighs their classes of service against each
// other, in the cgroups above the pods' own.
//
//	observe  the pods of the node
//	decide   common: one group for all, one for Burstable, one for BestEffort
//	act      write them
type enforcer struct {
	*common
	alloc *allocations
	kick  chan struct{} // a pod came
	said  string        // what was last told of success or failure
}

// run sets the limits at once, every minute, and after pods came, until ctx ends.
func (e *enforcer) run(ctx context.Context) {
	for {
		e.pass()
		select {
		case <-ctx.Done():
			return
		case <-time.After(enforceEvery):
		case <-e.kick:
			select {
			case <-ctx.Done():
				return
			case <-time.After(enforceRest):
			}
		}
	}
}

// wake has the weights follow the pods soon.
func (e *enforcer) wake() {
	select {
	case e.kick <- struct{}{}:
	default: // it is going to look
	}
}

func (e *enforcer) pass() {
	var pods []*corev1.Pod
	for _, p := range e.pods() {
		if !core.Terminal(p) {
			pods = append(pods, e.alloc.granted(p))
		}
	}
	capacity := e.capacity()
	if r, ok := pressure.Read(e.cfg.Dir, "")[pressure.PIDAvailable]; ok {
		capacity[Pid] = *apiresource.NewQuantity(r.Capacity, apiresource.DecimalSI)
	}
	left := spare(capacity, e.cfg.Resources.reserved(), nil)
	if left.Memory().IsZero() || left.Cpu().IsZero() {
		e.tell(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", "Failed to update Node Allocatable Limits %q: "+
			"what is reserved leaves pods no CPU or no memory: reserve less", e.cgroups.Pods())
		return
	}
	for _, g := range e.terms.common(pods, left) {
		if err := e.cgroups.Set(e.cgroups.Class(g.class), g.values); err != nil {
			e.tell(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", "Failed to update Node Allocatable Limits %q: %v",
				e.cgroups.Pods(), err)
			return
		}
	}
	e.tell(corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
}

// tell makes an event of what is news.
func (e *enforcer) tell(typ, reason, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text == e.said {
		return
	}
	e.said = text
	e.nodeEvent(typ, reason, "%s", text)
}

// A group is one of the pods' common cgroups: that of Guaranteed pods holds all.
type group struct {
	class  corev1.PodQOSClass
	values cgroup.Values
}

// common says what the common cgroups are limited to, the outermost first. It is pure.
func (t terms) common(pods []*corev1.Pod, spare corev1.ResourceList) []group {
	var burstableCPU, kept, low int64
	for _, p := range pods {
		asks := podresource.PodRequests(p, podresource.PodResourcesOptions{})
		switch p.Status.QOSClass {
		case corev1.PodQOSBurstable:
			burstableCPU += asks.Cpu().MilliValue()
			low += asks.Memory().Value()
		case corev1.PodQOSGuaranteed:
			kept += asks.Memory().Value()
		}
	}
	all := cgroup.Values{Shares: sharesOf(spare.Cpu().MilliValue()), Memory: new(spare.Memory().Value())}
	if pids, ok := spare[Pid]; ok {
		all.Pids = new(pids.Value())
	}
	burstable := cgroup.Values{Shares: sharesOf(burstableCPU)}
	if t.unified { // what a group keeps counts only as far as those above it keep it too
		if !t.TieredReservation {
			kept, low = 0, 0
		}
		all.Min, all.Low, burstable.Low = &kept, &low, &low
	}
	return []group{{corev1.PodQOSGuaranteed, all}, {corev1.PodQOSBurstable, burstable},
		{corev1.PodQOSBestEffort, cgroup.Values{Shares: sharesOf(0)}}}
}

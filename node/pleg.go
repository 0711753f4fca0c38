package node

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The times between two questions to the runtime for containers that changed by themselves: while it tells of ends by its stream of
// events, and while it does not (containerd has one from 1.7 on); and how long after its end the stream is asked for again.
const (
	relistEvery  = time.Second
	relistCalm   = 10 * time.Second
	listenAgain  = 5 * time.Second
	listenSeldom = 5 * time.Minute // from a runtime that has none
)

// A pleg is the pod lifecycle event generator (PLEG): it finds out what changed in the runtime by itself, and wakes the pods that it
// happened to. Its events are hints only: what is true a pass asks the runtime.
type pleg struct {
	*common
	hears atomic.Bool   // the stream of events is there
	look  chan struct{} // something may have changed unheard
}

func newPLEG(c *common) *pleg { return &pleg{common: c, look: make(chan struct{}, 1)} }

// run wakes pods until ctx ends: at once where the runtime tells of an end, and after the next list in any case.
func (p *pleg) run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.listen(ctx)
	}()
	p.relist(ctx)
	<-done
}

// listen follows the runtime's events, again and again until ctx ends.
func (p *pleg) listen(ctx context.Context) {
	for {
		err := p.follow(ctx)
		pause := listenAgain
		if status.Code(err) == codes.Unimplemented {
			pause = listenSeldom
		}
		if p.hears.Swap(false) {
			p.log.Debug("the runtime's events ended; asking each second", "err", err)
			p.relistSoon()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// follow wakes pods by one stream of events, until it ends.
func (p *pleg) follow(ctx context.Context) error {
	stream, err := p.cfg.Runtime.Containers.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	for err == nil {
		var e *cri.ContainerEventResponse
		if e, err = stream.Recv(); err != nil {
			break
		}
		if !p.hears.Swap(true) {
			p.relistSoon() // what happened before the first event was not heard
		}
		if e.ContainerEventType != cri.ContainerEventType_CONTAINER_STOPPED_EVENT {
			continue // beginnings are the agent's own doing
		}
		if m := e.GetPodSandboxStatus().GetMetadata(); m != nil {
			p.wake(m.Namespace, m.Name, "container ended")
		} else {
			p.relistSoon()
		}
	}
	return err
}

func (p *pleg) relistSoon() {
	select {
	case p.look <- struct{}{}:
	default: // it is going to
	}
}

// relist wakes the pods whose containers changed, and those that the API does not know.
func (p *pleg) relist(ctx context.Context) {
	last := map[string]seenState{}
	for {
		began := time.Now()
		now, err := p.states(ctx)
		p.meter.Relist(began, time.Now())
		if err != nil && ctx.Err() == nil {
			p.log.Warn("list the containers of the node", "err", err)
		}
		if err == nil {
			p.compare(last, now)
			last = now
		}
		pause := relistEvery
		if p.hears.Load() && err == nil {
			pause = relistCalm
		}
		select {
		case <-ctx.Done():
			return
		case <-p.look:
		case <-time.After(pause):
		}
	}
}

type seenState struct {
	ns, pod string
	state   cri.ContainerState
}

// ready is the state of sandboxes that serve, beside those of containers.
const ready = 100 + cri.ContainerState(cri.PodSandboxState_SANDBOX_READY)

// compare wakes the pods of what changed, and of what ran and was taken away.
func (p *pleg) compare(last, now map[string]seenState) {
	for id, s := range now {
		if was, known := last[id]; !known || was.state != s.state {
			p.wake(s.ns, s.pod, "container changed")
		}
	}
	for id, was := range last {
		if _, there := now[id]; !there && (was.state == cri.ContainerState_CONTAINER_RUNNING || was.state == ready) {
			p.wake(was.ns, was.pod, "container lost")
		}
	}
}

// states asks for every container and sandbox of the node.
func (p *pleg) states(ctx context.Context) (map[string]seenState, error) {
	rt := p.cfg.Runtime.Containers
	list, err := rt.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	boxes, err := rt.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	out := map[string]seenState{}
	for _, c := range list.Containers {
		out[c.Id] = seenState{c.Labels[labelNamespace], c.Labels[labelPod], c.State}
	}
	for _, b := range boxes.Items {
		out[b.Id] = seenState{b.Labels[labelNamespace], b.Labels[labelPod], cri.ContainerState(100 + b.State)}
	}
	return out, nil
}

package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A runtimeCache stands for the kubelet's runtime cache and its cache of pod statuses: it asks the runtime on behalf of all passes, and
// remembers answers that can't change any more. A pass that wants a list while another is under way shares the next one with all that come
// meanwhile; it begins after the question, so that no pass sees less than what it did itself. It is safe for concurrent use.
type runtimeCache struct {
	rt   cri.RuntimeServiceClient
	turn chan struct{} // holds whose list is under way

	mu   sync.Mutex
	next *round // gathers those who come until its turn
	pods map[podName]memory
}

type podName struct{ namespace, name string }

// A memory keeps statuses of one pod's sandboxes and containers, by their ids. A look at the pod that does not find them ends it.
type memory struct {
	boxes      map[string]*cri.PodSandboxStatus
	containers map[string]*cri.ContainerStatus
}

// A round is a question that several passes wait for.
type round struct {
	done  chan struct{}
	who   podName
	more  bool // others ask as well: everything is listed
	err   error
	found map[podName]*listed
}

// listed holds the part of a list that concerns one pod.
type listed struct {
	boxes      []*cri.PodSandbox
	containers []*cri.Container
}

func newRuntimeCache(rt cri.RuntimeServiceClient) *runtimeCache {
	return &runtimeCache{rt: rt, turn: make(chan struct{}, 1), pods: map[podName]memory{}}
}

// list asks for the sandboxes and containers of a pod.
func (m *runtimeCache) list(ctx context.Context, who podName) (listed, error) {
	for {
		r := m.join(ctx, who)
		switch found := r.found[who]; {
		case r.err == nil && found != nil:
			return *found, nil
		case r.err == nil:
			return listed{}, nil
		case ctx.Err() != nil || !givenUp(r.err):
			return listed{}, r.err
		}
		// The pass that asked for all of them has ended meanwhile.
	}
}

func givenUp(err error) bool {
	code := status.Code(err)
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || code == codes.Canceled ||
		code == codes.DeadlineExceeded
}

// join waits for the next round, or asks in it for all who wait.
func (m *runtimeCache) join(ctx context.Context, who podName) *round {
	m.mu.Lock()
	r := m.next
	if r != nil {
		r.more = r.more || r.who != who
		m.mu.Unlock()
		select {
		case <-r.done:
			return r
		case <-ctx.Done():
			return &round{err: ctx.Err()}
		}
	}
	r = &round{done: make(chan struct{}), who: who}
	m.next = r
	m.mu.Unlock()
	defer close(r.done)
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	m.mu.Lock()
	m.next = nil // who comes from now on may have done something that this list is too old for
	m.mu.Unlock()
	if r.err == nil {
		r.err = m.perform(ctx, r)
	}
	return r
}

// perform asks the runtime: for one pod, or for all of them at once.
func (m *runtimeCache) perform(ctx context.Context, r *round) error {
	var boxesOf *cri.PodSandboxFilter
	var containersOf *cri.ContainerFilter
	what := "the node"
	if !r.more {
		only := map[string]string{labelNamespace: r.who.namespace, labelPod: r.who.name}
		boxesOf, containersOf = &cri.PodSandboxFilter{LabelSelector: only}, &cri.ContainerFilter{LabelSelector: only}
		what = "pod " + r.who.namespace + "/" + r.who.name
	}
	boxes, err := m.rt.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: boxesOf})
	if err != nil {
		return fmt.Errorf("list the sandboxes of %s: %w", what, err)
	}
	containers, err := m.rt.ListContainers(ctx, &cri.ListContainersRequest{Filter: containersOf})
	if err != nil {
		return fmt.Errorf("list the containers of %s: %w", what, err)
	}
	r.found = map[podName]*listed{}
	of := func(labels map[string]string) *listed {
		who := podName{labels[labelNamespace], labels[labelPod]}
		if r.found[who] == nil {
			r.found[who] = &listed{}
		}
		return r.found[who]
	}
	for _, b := range boxes.Items {
		l := of(b.Labels)
		l.boxes = append(l.boxes, b)
	}
	for _, c := range containers.Containers {
		l := of(c.Labels)
		l.containers = append(l.containers, c)
	}
	return nil
}

// look returns the statuses of all that is listed of a pod, by their ids: from memory what can't have changed.
func (m *runtimeCache) look(ctx context.Context, who podName, l listed) (memory, error) {
	m.mu.Lock()
	old := m.pods[who]
	m.mu.Unlock()
	now := memory{map[string]*cri.PodSandboxStatus{}, map[string]*cri.ContainerStatus{}}
	for _, b := range l.boxes {
		if b.State != cri.PodSandboxState_SANDBOX_READY {
			continue // nothing is asked of it but its name
		}
		if now.boxes[b.Id] = old.boxes[b.Id]; addressed(old.boxes[b.Id]) {
			continue
		}
		res, err := m.rt.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: b.Id})
		if err != nil {
			return now, fmt.Errorf("read the status of sandbox %s: %w", b.Id, err)
		}
		now.boxes[b.Id] = res.Status
	}
	for _, c := range l.containers {
		if now.containers[c.Id] = old.containers[c.Id]; settled(old.containers[c.Id], c.State, time.Now()) {
			continue
		}
		res, err := m.rt.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.Id})
		if err != nil {
			return now, fmt.Errorf("read the status of container %s: %w", c.Id, err)
		}
		now.containers[c.Id] = res.Status
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.pods, who); len(l.boxes)+len(l.containers) > 0 {
		m.pods[who] = now
	}
	return now, nil
}

// addressed says that a sandbox's network is known: it never gets another.
func addressed(b *cri.PodSandboxStatus) bool { return b.GetNetwork().GetIp() != "" }

// settled says that a container's status can't have changed since it was read. Of one that ended the runtime may learn the reason,
// for want of memory, a moment after the end.
func settled(c *cri.ContainerStatus, now cri.ContainerState, at time.Time) bool {
	const learns = 10 * time.Second
	if c == nil || c.State != now {
		return false
	}
	switch now {
	case cri.ContainerState_CONTAINER_CREATED, cri.ContainerState_CONTAINER_RUNNING:
		return true
	case cri.ContainerState_CONTAINER_EXITED:
		return at.Sub(time.Unix(0, c.FinishedAt)) > learns
	}
	return false
}

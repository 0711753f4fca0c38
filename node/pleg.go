package node

import (
	"context"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// relistEvery is the time between two questions to the runtime for containers that changed by themselves. The runtime's event
// stream would tell sooner; containerd 1.6 has none.
const relistEvery = time.Second

// A pleg is the pod lifecycle event generator (PLEG): it finds out what changed in the runtime by itself, and wakes the pods that it
// happened to. Its events are hints only: what is true a pass asks the runtime.
type pleg struct{ *common }

// relist wakes the pods whose containers changed, and those that the API does not know.
func (p *pleg) relist(ctx context.Context) {
	last := map[string]cri.ContainerState{}
	for {
		now, err := p.states(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Warn("list the containers of the node", "err", err)
		}
		if err == nil {
			for id, s := range now {
				if was, known := last[id]; !known || was != s.state {
					p.poke(s.ns, s.pod, "container changed")
				}
			}
			clear(last)
			for id, s := range now {
				last[id] = s.state
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(relistEvery):
		}
	}
}

type seenState struct {
	ns, pod string
	state   cri.ContainerState
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

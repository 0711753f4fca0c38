package node

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/logs"
	"github.com/kloop-dev/kloop/node/serve"
	"github.com/kloop-dev/kloop/resource"
)

// LoopName is the agent's name among loops.
func (a *Agent) LoopName() string { return "node" }

// Run registers the node and runs its pods until ctx ends. Containers run on after that; the next agent goes on
// with them.
func (a *Agent) Run(ctx context.Context, env loop.Env) error {
	if err := a.register(ctx); err != nil {
		return err
	}
	defer a.probes.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { a.heartbeat(ctx) })
	wg.Go(func() { a.relist(ctx) })
	wg.Go(func() { a.statics(ctx) })
	wg.Go(func() {
		logs.Run(ctx, logs.Config{Dir: a.cfg.LogDir, Containers: a.cfg.Runtime.Containers, Log: a.log})
	})
	return a.Loop().Run(ctx, env)
}

// Serve answers the agent's own API on the listener until ctx ends.
func (a *Agent) Serve(ctx context.Context, l net.Listener, c serve.Config) error {
	c.Runtime, c.Pods, c.Container = a.cfg.Runtime, a.pods, a.find
	return serve.Serve(ctx, l, serve.New(c), a.cfg.Serving, c.ClientCA)
}

// pods lists the node's pods.
func (a *Agent) pods() []*corev1.Pod {
	return resource.Where(a.cfg.Client.Read(), kinds.Pods, "spec.nodeName", a.cfg.Name)
}

// find resolves a container for logs and exec: the running or last one, or with previous the one before it.
func (a *Agent) find(ns, name, container string, previous bool) (id, log string, running bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	seen, err := a.observe(ctx, ns, name)
	if err != nil {
		return "", "", false, err
	}
	list := seen.of(container)
	at := 0
	if previous && !a.waiting(ns, name, container) { // of one that waits for its restart the last run is the previous one
		at = 1
	}
	if len(list) <= at {
		if previous {
			return "", "", false, fmt.Errorf("previous terminated container %q in pod %q not found", container, name)
		}
		return "", "", false, fmt.Errorf("container %q in pod %q is waiting to start", container, name)
	}
	return list[at].id, list[at].log, list[at].running(), nil
}

// waiting says that the container ended and is told to wait for its next start.
func (a *Agent) waiting(ns, name, container string) bool {
	p := resource.Get(a.cfg.Client.Read(), kinds.Pods, ns, name)
	if p == nil {
		return false
	}
	st := previous(p, container)
	return st != nil && st.State.Waiting != nil && st.LastTerminationState.Terminated != nil
}

// relistEvery is how often the runtime is asked for containers that changed by themselves. The runtime's event
// stream would tell sooner; containerd 1.6 has none.
const relistEvery = time.Second

// relist wakes the pods whose containers changed, and those that the API does not know.
func (a *Agent) relist(ctx context.Context) {
	last := map[string]cri.ContainerState{}
	for {
		now, err := a.states(ctx)
		if err != nil && ctx.Err() == nil {
			a.log.Warn("list the containers of the node", "err", err)
		}
		if err == nil {
			for id, s := range now {
				if was, known := last[id]; !known || was != s.state {
					a.poke(s.ns, s.pod, "container changed")
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
func (a *Agent) states(ctx context.Context) (map[string]seenState, error) {
	rt := a.cfg.Runtime.Containers
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

// sweep removes the files of pods that are neither in the API nor in the runtime.
func (a *Agent) sweep(ctx context.Context) error {
	boxes, err := a.cfg.Runtime.Containers.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	used := map[types.UID]bool{}
	for _, b := range boxes.Items {
		used[types.UID(b.Labels[labelUID])] = true
	}
	for _, p := range a.pods() {
		used[p.UID] = true
	}
	for _, uid := range a.vols.Orphans() {
		if !used[uid] {
			if err := a.vols.Remove(uid); err != nil {
				return err
			}
		}
	}
	return nil
}

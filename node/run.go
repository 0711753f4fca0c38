package node

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/logs"
	"github.com/kloop-dev/kloop/node/serve"
	"github.com/kloop-dev/kloop/resource"
)

// Run registers the node and runs its pods until ctx ends. Containers run on after that; the next agent goes on
// with them.
func (a *Agent) Run(ctx context.Context, env loop.Env) error {
	if err := a.hardware.broken; err != nil {
		return err
	}
	if err := a.node.register(ctx); err != nil {
		return err
	}
	defer a.probes.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer a.tasks.run(ctx)()
	defer stop()
	wg.Go(func() { a.node.heartbeat(ctx) })
	wg.Go(func() { a.node.keepStatus(ctx) })
	wg.Go(func() { a.runSweep(ctx) })
	wg.Go(func() { a.node.watchHealth(ctx) })
	wg.Go(func() { a.enforce.run(ctx) })
	if len(a.cfg.Shutdown) > 0 {
		wg.Go(func() { a.ends.run(ctx) })
	}
	if len(a.cfg.Eviction) > 0 || a.cfg.ImageGCHigh > 0 || a.cfg.ImageMaxAge > 0 {
		wg.Go(func() { a.watch.run(ctx) })
	}
	wg.Go(func() { (&placer{common: a.common}).run(ctx) })
	if a.cfg.Plugins {
		wg.Go(func() { a.runHardware(ctx) })
		wg.Go(func() { a.runPlugins(ctx) })
		wg.Go(func() { a.vols.CSI().RefreshLimits(ctx) })
	}
	if a.cfg.Pins != nil {
		wg.Go(func() { a.keepReferences(ctx) })
	}
	wg.Go(func() { newPLEG(a.common).run(ctx) })
	wg.Go(func() { (&staticPods{common: a.common}).run(ctx) })
	wg.Go(func() {
		logs.Run(ctx, logs.Config{Dir: a.cfg.LogDir, Containers: a.cfg.Runtime.Containers, MaxBytes: a.cfg.LogMax, MaxFiles: a.cfg.LogFiles,
			Log: a.log})
	})
	return a.Loop().Run(ctx, env)
}

// Serve answers the agent's own API on the listener until ctx ends.
func (a *Agent) Serve(ctx context.Context, l net.Listener, c serve.Config) error {
	c.Runtime, c.Pods, c.Container, c.Volumes, c.Logs = a.cfg.Runtime, a.pods, a.find, a.vols.Usage, a.logDir
	c.Meter, c.Serving = a.meter.Gatherer(), a.cfg.Serving
	c.Groups = func(p *corev1.Pod) (cgroup.Use, map[string]cgroup.Use) {
		return a.cgroups.Use(p.Status.QOSClass, p.UID)
	}
	c.Configuration, c.Checkpoints = func() any { return a.configuration() }, filepath.Join(a.cfg.Dir, "checkpoints")
	c.Probes = func() (list []serve.ProbeCount) {
		for p, n := range a.probes.Counts() {
			list = append(list, serve.ProbeCount{Namespace: p.Namespace, Pod: p.Pod, UID: string(p.UID), Container: p.Container, Kind: p.Kind,
				Result: p.Result, Count: n})
		}
		return list
	}
	return serve.Serve(ctx, l, serve.New(c), a.cfg.Serving)
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
			return "", "", false, serve.NoLog(fmt.Sprintf("previous terminated container %q in pod %q not found", container, name))
		}
		return "", "", false, serve.NoLog(fmt.Sprintf("container %q in pod %q is waiting to start: %s", container, name,
			whyWaits(resource.Get(a.cfg.Client.Read(), kinds.Pods, ns, name), container)))
	}
	return list[at].id, list[at].log, list[at].running(), nil
}

// whyWaits tells by a container's status why it has no log. The pod may be nil.
func whyWaits(pod *corev1.Pod, container string) string {
	reason := "ContainerCreating"
	if pod != nil {
		if s := previous(pod, container); s != nil && s.State.Waiting != nil {
			reason = s.State.Waiting.Reason
		}
	}
	switch reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	}
	return reason
}

// waiting reports whether the container ended and waits for its next start.
func (a *Agent) waiting(ns, name, container string) bool {
	p := resource.Get(a.cfg.Client.Read(), kinds.Pods, ns, name)
	if p == nil {
		return false
	}
	st := previous(p, container)
	return st != nil && st.State.Waiting != nil && st.LastTerminationState.Terminated != nil
}

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/node/volume"
	"github.com/kloop-dev/kloop/resource"
)

// world gathers what the plan needs.
func (a *Agent) world(c *loop.Ctx, pod *corev1.Pod, seen runtimeState) world {
	now := c.Now()
	for i := range seen.containers { // the back-offs follow from what the runtime tells
		if k := &seen.containers[i]; k.ended() && k == seen.newest(k.name) {
			a.backoff.ended(pod.UID, k, now)
		}
	}
	return world{pod: a.alloc.granted(pod), seen: seen, now: now, evict: a.evict.get(pod.UID),
		probed: func(name string) probed {
			k := seen.newest(name)
			if k == nil {
				return probed{}
			}
			r := a.probes.Get(k.id)
			return probed{started: r.Started, ready: r.Ready, sick: r.Sick, why: r.Why, grace: r.Grace}
		},
		wait: func(name string, k *container) time.Duration {
			if k.hash != hashOf(specOf(pod, name)) { // its image may be what was wrong
				return 0
			}
			left, _ := a.backoff.left(pod.UID, name, now)
			return left
		}}
}

// act does what the plan says, and adds to it what it did besides. again is the time to look again although nothing may change.
func (a *Agent) act(ctx context.Context, c *loop.Ctx, w world, t *todo) (again time.Duration, err error) {
	if t.stop {
		return a.end(ctx, c, w, *t)
	}
	if !announced(w) {
		return loop.Now, nil // its status tells first
	}
	for _, name := range t.waits {
		if p := w.pod; a.backoff.announce(p.UID, name) {
			a.event(p, name, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
				name, p.Name, p.Namespace, p.UID)
		}
	}
	if err := a.takeAway(ctx, w, t); err != nil {
		return 0, err
	}
	box := w.seen.box(w.pod.UID)
	if !t.sandbox && len(t.start) == 0 {
		a.watchProbes(w, box)
		next, err := a.vols.Refresh(ctx, w.pod)
		return soonest(t.again, next), err
	}
	if t.sandbox && !a.networked(ctx, c, w.pod) {
		return soonest(t.again, networkWait), nil
	}
	mounts, ok, err := a.mount(ctx, c, w)
	if err != nil {
		return 0, err
	}
	if !ok {
		return soonest(t.again, volumeWait), nil
	}
	if t.sandbox {
		if err := a.sandboxed(ctx, w); err != nil {
			return 0, err
		}
		return loop.Now, nil // go on from what the runtime then shows
	}
	if err := a.isolate(ctx, w, box); err != nil {
		return 0, err
	}
	if len(t.kill)+len(t.drop)+len(t.boxes) > 0 {
		t.again = loop.Now
	}
	return a.startAll(ctx, c, w, box, *t, mounts)
}

// takeAway resizes what runs, stops and drops containers, those too that have to restart for their resize, and removes sandboxes.
func (a *Agent) takeAway(ctx context.Context, w world, t *todo) error {
	restart, failed := a.resize.actuate(ctx, w)
	t.kill = append(t.kill, restart...)
	if err := a.stop.kill(ctx, w.pod, t.kill); err != nil {
		return err
	}
	if failed != nil { // its condition tells why
		t.again = soonest(t.again, deferredEvery)
	}
	for _, k := range t.drop {
		if err := a.clean.drop(ctx, w.pod, k); err != nil {
			return err
		}
	}
	for _, id := range t.boxes {
		if err := a.boxes.removeSandbox(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// startAll starts the containers of a plan. Those that have to wait say when to look again; what starts is looked at at once. The cgroup of
// the pod has room for a container of another size before it starts, and no more than that after.
func (a *Agent) startAll(ctx context.Context, c *loop.Ctx, w world, box *sandbox, t todo, mounts map[string]string) (time.Duration, error) {
	again := t.again
	var errs []error
	for _, s := range t.start {
		resized := differ(a.alloc.has(w.pod, s.spec.Name), s.spec.Resources)
		if resized {
			errs = append(errs, a.resize.fit(w))
		}
		next, err := a.starter.start(ctx, c, w, box, s, mounts)
		again = soonest(again, next)
		errs = append(errs, err)
		if resized {
			errs = append(errs, a.resize.fit(w))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return again, nil
}

// sandboxed makes the pod's sandbox, in the place of those that are lost.
func (a *Agent) sandboxed(ctx context.Context, w world) error {
	if len(w.seen.sandboxes) > 0 {
		a.event(w.pod, "", corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	var slower error // for want of an address again: more time before the next one
	for _, b := range w.seen.sandboxes {
		if b.lost != "" && b.uid == w.pod.UID { // its containers have been stopped
			if err := a.boxes.stopSandbox(ctx, b.id); err != nil {
				return err
			}
			if b.lost == noAddress && b.try > 0 {
				slower = fmt.Errorf("sandbox %s of pod %s/%s had no address", b.id, w.pod.Namespace, w.pod.Name)
			}
		}
	}
	err := a.boxes.runSandbox(ctx, w)
	a.meter.Sandbox(w.pod.Spec.HostUsers != nil && !*w.pod.Spec.HostUsers, err)
	if err != nil {
		return err
	}
	a.enforce.wake()
	return slower
}

// soonest is the smaller of two waits, where 0 means none.
func soonest(a, b time.Duration) time.Duration {
	switch {
	case a <= 0:
		return max(b, 0)
	case b <= 0:
		return a
	}
	return min(a, b)
}

// prepare has the devices of claims made ready, and makes the volumes and the pod's directories.
func (a *Agent) prepare(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if err := a.hardware.claims.Prepare(ctx, pod); err != nil {
		a.event(pod, "", corev1.EventTypeWarning, "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: %v", err)
		return nil, err
	}
	mounts, err := a.vols.Prepare(ctx, pod)
	if err != nil {
		a.event(pod, "", corev1.EventTypeWarning, volume.Reason(err), "%v", err)
		return nil, err
	}
	return mounts, a.makeDirs(pod)
}

// watchProbes keeps a probe worker for every running container that wants one.
func (a *Agent) watchProbes(w world, box *sandbox) {
	if box == nil {
		return
	}
	ip := a.cfg.Address.String()
	if !w.pod.Spec.HostNetwork && len(box.ips) > 0 {
		ip = box.ips[0]
	}
	for _, list := range [][]corev1.Container{w.pod.Spec.InitContainers, w.pod.Spec.Containers} {
		for i := range list {
			switch c := w.seen.newest(list[i].Name); {
			case c == nil:
			case c.running():
				a.probes.Sync(w.pod, &list[i], c.id, ip, c.began)
			default:
				a.probes.End(c.id)
			}
		}
	}
}

// end stops the pod's containers and, when all have stopped, takes its sandbox and volumes down; a pod that was
// deleted is then removed from the API.
func (a *Agent) end(ctx context.Context, c *loop.Ctx, w world, t todo) (again time.Duration, err error) {
	pod := w.pod
	if t.why == "DeadlineExceeded" && !core.Terminal(pod) && !a.stop.busy(pod.UID) {
		a.event(pod, "", corev1.EventTypeNormal, t.why, "%s", t.message)
	}
	if w.seen.anyRunning() {
		return a.stop.stopAll(pod, w.seen, graceOf(pod, t.grace))
	}
	if a.stop.busy(pod.UID) {
		return 0, nil // its end wakes us
	}
	for i := range w.seen.sandboxes {
		if b := &w.seen.sandboxes[i]; b.ready {
			if err := a.boxes.stopSandbox(ctx, b.id); err != nil {
				return 0, err
			}
			b.ready = false // and the pod's last status says so
		}
	}
	if err := a.released(ctx, pod.UID); err != nil {
		return 0, err
	}
	if err := a.hardware.claims.Unprepare(ctx, pod.UID); err != nil {
		a.event(pod, "", corev1.EventTypeWarning, "FailedUnprepareDynamicResources", "Failed to unprepare dynamic resources: %v", err)
		c.Waiting("the devices of its claims are not taken back: %v", err)
		return claimWait, nil
	}
	a.hardware.free(pod.UID) // before anybody reads of its end: the next pod may have them at once
	a.probes.StopPod(pod.UID)
	if t.why != "" && !core.Terminal(pod) {
		return loop.Now, reported(a.fail(ctx, c, w, t))
	}
	if pod.DeletionTimestamp == nil {
		return 0, a.vols.Remove(ctx, pod.UID) // what it wrote goes; its containers stay for their logs
	}
	if !core.Terminal(pod) { // its end, and the last words of the containers, must reach the status before these go
		st := a.status.podStatus(w)
		terminal(w, &st, a.stop.since(pod.UID))
		return loop.Now, reported(a.write(ctx, c, pod, st))
	}
	if err := a.clean.clean(ctx, w.seen, pod.UID); err != nil {
		return 0, err
	}
	now := int64(0)
	if err := c.DeleteWith(ctx, kinds.Pods, pod, deleteNow(pod.UID, &now)); err != nil {
		return 0, err
	}
	return 0, errRemoved
}

// reported says, after a write of the pod's end, that there is nothing else to report.
func reported(err error) error {
	if err != nil {
		return err
	}
	return errRemoved
}

// gone cleans up after a pod that is no longer in the API: it was removed by force, or while the agent was away.
func (a *Agent) gone(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	seen, err := a.observe(ctx, key.Namespace, key.Name)
	if err != nil || seen.empty() {
		return 0, err
	}
	if resource.Get(c, kinds.Pods, key.Namespace, key.Name) != nil {
		return 0, nil
	}
	for _, b := range seen.sandboxes {
		if err := a.released(ctx, b.uid); err != nil {
			return 0, err
		}
	}
	return 0, a.clean.remove(ctx, seen)
}

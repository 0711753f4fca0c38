package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// world gathers what the plan needs.
func (a *Agent) world(c *loop.Ctx, pod *corev1.Pod, seen sight) world {
	now := c.Now()
	for i := range seen.containers { // the pauses follow from what the runtime tells
		if k := &seen.containers[i]; k.ended() {
			a.backoff.ended(pod.UID, k.name, k.done, k.done.Sub(k.began))
		}
	}
	return world{pod: pod, seen: seen, now: now,
		probed: func(name string) probed {
			k := seen.newest(name)
			if k == nil {
				return probed{}
			}
			r := a.probes.Get(k.id)
			return probed{started: r.Started, ready: r.Ready, sick: r.Sick, why: r.Why, grace: r.Grace}
		},
		wait: func(name string, k *container) time.Duration {
			left, _ := a.backoff.left(pod.UID, name, now)
			return left
		}}
}

// act does what the plan says. again is when to look again although nothing may change.
func (a *Agent) act(ctx context.Context, c *loop.Ctx, w world, t todo) (again time.Duration, err error) {
	if t.stop {
		return a.end(ctx, c, w, t)
	}
	if err := a.kill(ctx, w.pod, t.kill); err != nil {
		return 0, err
	}
	for _, k := range t.drop {
		if err := a.drop(ctx, w.pod, k); err != nil {
			return 0, err
		}
	}
	box := w.seen.box(w.pod.UID)
	if !t.sandbox && len(t.start) == 0 {
		a.watchProbes(w, box)
		next, err := a.vols.Refresh(ctx, w.pod)
		return soonest(t.again, next), err
	}
	mounts, err := a.prepare(ctx, w.pod)
	if err != nil {
		return 0, err
	}
	if t.sandbox {
		if err := a.runSandbox(ctx, w); err != nil {
			return 0, err
		}
		return time.Millisecond, nil // go on from what the runtime then shows
	}
	var errs []error
	for _, s := range t.start {
		again, serr := a.start(ctx, c, w, box, s, mounts)
		t.again = soonest(t.again, again)
		errs = append(errs, serr)
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return time.Millisecond, nil
}

// drop removes a container with its log and last words.
func (a *Agent) drop(ctx context.Context, pod *corev1.Pod, k *container) error {
	if err := a.removeContainer(ctx, k.id); err != nil {
		return err
	}
	rotated, err := filepath.Glob(k.log + "*")
	if err != nil || k.log == "" {
		rotated = nil
	}
	for _, path := range append(rotated, a.lastWords(pod, k.name, k.restarts)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the traces of container %s: %w", k.name, err)
		}
	}
	return nil
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

// prepare makes the volumes and the pod's directories.
func (a *Agent) prepare(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if err := withoutDevices(pod); err != nil {
		a.event(pod, "", corev1.EventTypeWarning, "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: %v", err)
		return nil, err
	}
	mounts, err := a.vols.Prepare(ctx, pod)
	if err != nil {
		a.event(pod, "", corev1.EventTypeWarning, "FailedMount", "%v", err)
		return nil, err
	}
	return mounts, a.makeDirs(pod)
}

// withoutDevices refuses to start a pod that claims devices: nobody here would give them to its containers.
func withoutDevices(pod *corev1.Pod) error {
	which := ""
	if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
		which = e.ResourceClaimName
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		which = pod.Spec.ResourceClaims[0].Name
	}
	if which == "" {
		return nil
	}
	return fmt.Errorf("the pod claims devices (%s), and this node's agent talks to no driver of devices yet: let it run on a node of another agent", which)
}

func (a *Agent) event(pod *corev1.Pod, container, typ, reason, format string, args ...any) {
	ref := corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion}
	if container != "" {
		ref.FieldPath = fmt.Sprintf("spec.containers{%s}", container)
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container }) {
			ref.FieldPath = fmt.Sprintf("spec.initContainers{%s}", container)
		}
		if slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container }) {
			ref.FieldPath = fmt.Sprintf("spec.ephemeralContainers{%s}", container)
		}
	}
	a.cfg.Events.Ref(ref, typ, reason, format, args...)
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
			if c := w.seen.newest(list[i].Name); c != nil && c.running() {
				a.probes.Sync(w.pod, &list[i], c.id, ip, c.began)
			}
		}
	}
}

// An ending is a pod whose containers are being stopped in the background: stopping takes as long as the pod's
// grace, and the loop must stay able to answer meanwhile.
type ending struct {
	grace  int64
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// end stops the pod's containers and, when all have stopped, takes its sandbox and volumes down; a pod that was
// deleted is then removed from the API.
func (a *Agent) end(ctx context.Context, c *loop.Ctx, w world, t todo) (again time.Duration, err error) {
	pod := w.pod
	if w.seen.anyRunning() {
		return 0, a.stopAll(pod, w.seen, graceOf(pod, t.grace))
	}
	a.mu.Lock()
	e := a.stopping[pod.UID]
	a.mu.Unlock()
	if e != nil {
		select {
		case <-e.done:
		default:
			return 0, nil // its end wakes us
		}
	}
	for _, b := range w.seen.sandboxes {
		if b.ready {
			if err := a.stopSandbox(ctx, b.id); err != nil {
				return 0, err
			}
		}
	}
	a.probes.StopPod(pod.UID)
	if t.why != "" && !finished(pod) {
		return time.Millisecond, a.fail(ctx, c, w, t.why, t.message)
	}
	if pod.DeletionTimestamp == nil {
		return 0, a.vols.Remove(pod.UID) // what it wrote goes; its containers stay for their logs
	}
	// The last words of the containers must reach the status before the containers go.
	if !finished(pod) && len(w.seen.containers) > 0 && !a.reported(pod, w) {
		return time.Millisecond, a.report(ctx, c, pod, nil)
	}
	if err := a.clean(ctx, w.seen, pod); err != nil {
		return 0, err
	}
	now := int64(0)
	if err := c.DeleteWith(ctx, kinds.Pods, pod, deleteNow(pod.UID, &now)); err != nil {
		return 0, err
	}
	return 0, errRemoved
}

// graceOf is how many seconds the pod's containers have to stop by themselves.
func graceOf(pod *corev1.Pod, asked *int64) int64 {
	switch {
	case asked != nil:
		return max(*asked, 1)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return max(*pod.Spec.TerminationGracePeriodSeconds, 1)
	}
	return 30
}

// stopAll begins to stop the pod's containers, or begins anew when there is less time than before.
func (a *Agent) stopAll(pod *corev1.Pod, seen sight, grace int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.stopping[pod.UID]; e != nil {
		select {
		case <-e.done:
		default:
			if grace >= e.grace {
				return nil
			}
			e.cancel()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(grace+60)*time.Second)
	e := &ending{grace: grace, cancel: cancel, done: make(chan struct{})}
	a.stopping[pod.UID] = e
	go func() {
		defer cancel()
		e.err = a.stopContainers(ctx, pod, seen, grace)
		close(e.done)
		if e.err != nil && ctx.Err() == nil {
			a.log.Warn("stop the containers", "object", "pod/"+pod.Namespace+"/"+pod.Name, "err", e.err)
		}
		a.poke(pod.Namespace, pod.Name, "containers stopped")
	}()
	return nil
}

func (a *Agent) poke(ns, name, why string) {
	a.pokes.Wake(loop.Key{Kind: kinds.Pods, Namespace: ns, Name: name}, why)
}

// clean removes the pod's containers, sandboxes, volumes and cgroup.
func (a *Agent) clean(ctx context.Context, seen sight, pod *corev1.Pod) error {
	if err := a.removeAll(ctx, seen); err != nil {
		return err
	}
	a.forget(pod.UID)
	if err := a.vols.Remove(pod.UID); err != nil {
		return err
	}
	return a.removeDirs(pod)
}

func (a *Agent) forget(uid types.UID) {
	a.backoff.forget(uid)
	a.images.forget(uid)
	a.probes.StopPod(uid)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.stopping, uid)
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
	return 0, a.remove(ctx, seen)
}

// remove stops and removes whatever a sight holds, at once.
func (a *Agent) remove(ctx context.Context, seen sight) error {
	uids := map[types.UID]bool{}
	for i := range seen.containers {
		k := &seen.containers[i]
		uids[k.uid] = true
		if k.running() {
			if err := a.stopContainer(ctx, k.id, 2); err != nil {
				return err
			}
		}
	}
	for _, b := range seen.sandboxes {
		uids[b.uid] = true
		if err := a.stopSandbox(ctx, b.id); err != nil {
			return err
		}
	}
	if err := a.removeAll(ctx, seen); err != nil {
		return err
	}
	for uid := range uids {
		a.forget(uid)
		if err := a.vols.Remove(uid); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(a.cfg.Dir, "pods", string(uid))); err != nil {
			return fmt.Errorf("remove the pod's files: %w", err)
		}
	}
	return nil
}

// usersOf wakes the pods of this node that use a ConfigMap or Secret, so that their volumes follow.
func (a *Agent) usersOf(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	_, secret := obj.(*corev1.Secret)
	for _, p := range resource.Where(read, kinds.Pods, "spec.nodeName", a.cfg.Name) {
		if p.Namespace == obj.GetNamespace() && mounts(p, obj.GetName(), secret) {
			wake(p.Namespace, p.Name)
		}
	}
}

func mounts(p *corev1.Pod, name string, secret bool) bool {
	for _, v := range p.Spec.Volumes {
		switch {
		case secret && v.Secret != nil && v.Secret.SecretName == name, !secret && v.ConfigMap != nil && v.ConfigMap.Name == name:
			return true
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if secret && s.Secret != nil && s.Secret.Name == name || !secret && s.ConfigMap != nil && s.ConfigMap.Name == name {
					return true
				}
			}
		}
	}
	return false
}

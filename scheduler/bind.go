package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/trail"
)

// A job writes something beside the scheduler's goroutine; what it returns then happens on that goroutine.
type job func(ctx context.Context) (done func())

// writeTime is the longest that one job may take.
const writeTime = 30 * time.Second

// startWrites starts writes, as many at once as may be.
func (r *runner) startWrites(ctx context.Context) {
	for r.writesInFlight < r.cfg.Parallel {
		do := r.nextJob()
		if do == nil {
			return
		}
		r.writesInFlight++
		r.wg.Go(func() {
			jctx, cancel := context.WithTimeout(ctx, writeTime)
			defer cancel()
			r.results <- caught(jctx, do) // has room for all writes in flight
		})
	}
}

// caught is do(ctx), whose panic goes on on the scheduler's goroutine, where somebody is prepared for it.
func caught(ctx context.Context, do job) (done func()) {
	defer func() {
		if p := recover(); p != nil {
			p = fmt.Sprintf("%v\n%s", p, debug.Stack())
			done = func() { panic(p) }
		}
	}()
	return do(ctx)
}

// nextJob takes the next write; status writes that are out of date are left out.
func (r *runner) nextJob() job {
	if len(r.writes) > 0 {
		do := r.writes[0]
		r.writes[0] = nil
		r.writes = r.writes[1:]
		return do
	}
	for len(r.status.queue) > 0 {
		m := r.status.queue[0]
		r.status.queue[0] = statusWrite{}
		r.status.queue = r.status.queue[1:]
		t := m.task
		switch {
		case t.gone || t.lastStatus != m.text:
		case t.stage == binding || t.stage == placed:
			t.lastStatus, t.nominating = "", false // not said after all
		case t.statusInFlight:
			t.nextStatus = &m
		default:
			t.statusInFlight = true
			return m.do
		}
	}
	return nil
}

func (r *runner) writeDone(done func()) {
	r.writesInFlight--
	if done != nil {
		done()
	}
	r.wake.improvedNodes()
}

// assume assumes the task on the node and has it written.
func (r *runner) assume(t *task, slot int) {
	c := t.class
	if v := c.volumes; v != nil && len(v.wait) > 0 {
		t.plan, _ = v.plan(r.st.nodes[slot].node)
	}
	if c.devices != nil {
		t.devices = c.devices.plan(t.pod, r.st.nodes[slot])
	}
	r.st.nominate(t, -1)
	r.st.addPod(t, slot)
	r.st.nextStart = slot + 1
	t.stage = binding
	r.wake.class(c)
	r.wake.byTopology(c)
	node := r.st.nodes[slot].name
	if t.devices != nil {
		r.st.inventory.assume(t.devices)
	}
	r.volumes.bind(t, node)
}

// announceNode tells others where a pod will be, because it will take a while until it is (KEP-5278). Nothing depends on it.
func (r *runner) announceNode(ctx context.Context, p *corev1.Pod, node string) {
	if p.Status.NominatedNodeName == node {
		return
	}
	if _, err := r.status.write(ctx, p, statusChange{nominated: &node}); err != nil && !apierrors.IsNotFound(err) {
		r.log.Debug("nominate", "kind", "Pod", "object", keyOf(p), "err", err)
	}
}

// preBind tells of a failure before the binding itself.
const preBind = "running PreBind plugin %q: %w"

func (r *runner) bind(t *task, node string) {
	p := t.pod
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if t.statusInFlight { // what is being written must not come after
		t.afterStatus = func() { r.bind(t, node) }
		return
	}
	by := t.class.binder()
	r.writes = append(r.writes, func(ctx context.Context) func() {
		began := r.env.Now()
		err := r.call(ctx, p, b, by)
		r.meter.bound(p, err, r.env.Now().Sub(began))
		if err != nil && by == nil {
			err = fmt.Errorf("running Bind plugin \"DefaultBinder\": %w", err)
		}
		if err == nil {
			r.event(p, "Binding", corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", p.Namespace, p.Name, node))
		}
		return func() {
			if err != nil {
				r.bindFailed(t, err)
			} else if t.stage == binding {
				t.stage = placed
			}
		}
	})
}

// call posts a binding, or has an extender do it. When the answer says neither yes nor no, it looks: a pod that was bound after all
// must not be taken for one that was not.
func (r *runner) call(ctx context.Context, p *corev1.Pod, b *corev1.Binding, by *Extender) error {
	if by != nil {
		return by.bind(ctx, b)
	}
	ctx = because(ctx, p)
	_, err := r.env.Client.Call(ctx, kinds.Pods, p.Namespace, p.Name, "binding", b)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return err
	}
	for wait := firstLook; ; wait *= 2 {
		now, look := r.env.Client.Get(ctx, kinds.Pods, p.Namespace, p.Name)
		switch {
		case apierrors.IsNotFound(look):
			return look
		case look == nil:
			if pod := now.(*corev1.Pod); pod.UID == p.UID && pod.Spec.NodeName == b.Target.Name {
				return nil
			}
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// because returns a context whose writes tell that the pod, as it is known, made the scheduler act.
func because(ctx context.Context, p *corev1.Pod) context.Context {
	key := trail.RefOf(kinds.Pods, p.Namespace, p.Name)
	key.Rev = resource.Revision(p)
	return trail.With(ctx, &trail.Cause{Loop: "scheduler", Key: key, Woken: []trail.Ref{key}})
}

// firstLook is the pause after a look in vain at what became of a binding; it doubles.
const firstLook = 100 * time.Millisecond

// bindFailed takes an assumed pod back: it was not bound.
func (r *runner) bindFailed(t *task, err error) {
	if t.gone {
		return
	}
	if t.stage != binding { // somebody else gave it a node
		r.volumes.forget(t)
		r.devices.forget(t)
		return
	}
	if t.pod.Spec.NodeName != "" { // it was bound all the same
		t.stage = placed
		return
	}
	r.volumes.forget(t)
	r.devices.forget(t)
	r.removeAssumed(t)
	t.stage = placed
	r.failed(t, err)
}

// failed has a task rest after an error.
func (r *runner) failed(t *task, err error) {
	switch {
	case t.pod.DeletionTimestamp != nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // news is on its way
	default:
		r.log.Error("schedule", "kind", "Pod", "object", keyOf(t.pod), "err", err)
		r.event(t.pod, "Scheduling", corev1.EventTypeWarning, "FailedScheduling", err.Error())
		r.status.set(t, corev1.PodReasonSchedulerError, err.Error(), t.pod.Status.NominatedNodeName)
		if i, ok := r.st.byName[t.pod.Status.NominatedNodeName]; ok { // its room there stays its own
			r.st.nominate(t, i)
		}
	}
	if t.pod.DeletionTimestamp == nil && t.pod.Spec.NodeName == "" {
		r.q.addBackoff(t, r.env.Now())
		r.records.Waits(recordKey(t), 0, "", err, t.backoffUntil)
	}
}

// event tells of a pod.
func (r *runner) event(p *corev1.Pod, doing, typ, reason, text string) {
	r.env.Events.Doing(doing).Event(kinds.Pods, p, typ, reason, "%s", shortened(text))
}

// shortened cuts a text to the bytes that an event may have, with upstream's mark, and cuts no letter in two.
func shortened(text string) string {
	const most, cut = 1024, " ..."
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(cut)], "") + cut
}

// handleNoFit puts a task that fits nowhere among the unschedulable, after preemption where that helps, and returns why.
func (r *runner) handleNoFit(t *task, f *failure) string {
	text := f.message()
	after, c, why := r.help(t, f)
	switch {
	case c != nil:
		r.evict(t, c)
	case t.nominee >= 0 && !r.st.leaving(t):
		r.st.nominate(t, -1)
	}
	if why != "" {
		after = append(after, "preemption: "+why)
	}
	if c == nil && len(after) > 0 && f.nodes > 0 {
		text += " " + strings.Join(after, ", ")
	}
	node := ""
	if t.nominee >= 0 {
		node = r.st.nodes[t.nominee].name
	}
	t.wakes = f.wakes
	if !f.early {
		r.event(t.pod, "Scheduling", corev1.EventTypeWarning, "FailedScheduling", text)
		r.status.set(t, corev1.PodReasonUnschedulable, text, node)
	}
	r.q.addUnschedulable(t, r.env.Now())
	return text
}

// help tries what may make room. Where volumes refused the pod, nobody has looked at its devices, which ends the attempt.
func (r *runner) help(t *task, f *failure) (after []string, c *candidate, why string) {
	if t.class.profile.on(dynamicResources) && t.class.volumes != nil && t.class.volumes.broken != "" {
		return []string{"not found"}, nil, ""
	}
	after = r.devices.surrender(t)
	c, why = r.postFilter(t, f)
	return after, c, why
}

// postFilter runs preemption; pods that are alike and have no nomination get the same no.
func (r *runner) postFilter(t *task, f *failure) (*candidate, string) {
	if !t.class.profile.on(defaultPreemption) {
		return nil, ""
	}
	if f.preemption != "" && t.nominee < 0 {
		return nil, f.preemption
	}
	began := r.env.Now()
	c, why := r.st.preempt(t, f, budgetsOf(r.st.read))
	r.meter.made(t.pod, c, r.env.Now().Sub(began))
	if c == nil && t.nominee < 0 {
		f.preemption = why
	}
	return c, why
}

// evict sends the victims away and keeps their room for the task.
func (r *runner) evict(t *task, c *candidate) {
	for _, x := range r.st.nodes[c.node].nominated {
		if x.class.priority < t.class.priority {
			defer r.unnominate(x)
		}
	}
	r.st.nominate(t, c.node)
	node, by := r.st.nodes[c.node].name, t.pod
	for _, v := range c.victims {
		v.evicting = true
		victim := v.pod
		r.writes = append(r.writes, func(ctx context.Context) func() {
			err := r.evictVictim(ctx, victim, by, node)
			return func() {
				if err != nil {
					v.evicting = false
					r.q.retry(t, r.env.Now())
					r.log.Error("preempt", "kind", "Pod", "object", keyOf(victim), "node", node, "err", err)
				}
			}
		})
	}
}

func (r *runner) unnominate(t *task) {
	r.st.nominate(t, -1)
	r.status.set(t, "", "", "")
	r.q.activate(t, r.env.Now())
}

// evictVictim writes into a victim's status why, then deletes it.
func (r *runner) evictVictim(ctx context.Context, victim, by *corev1.Pod, node string) error {
	ctx = because(ctx, by)
	_, err := r.status.write(ctx, victim, statusChange{condition: condition(victim, corev1.DisruptionTarget, corev1.ConditionTrue,
		corev1.PodReasonPreemptionByScheduler, by.Spec.SchedulerName+": preempting to accommodate a higher priority pod", r.env.Now())})
	if err == nil {
		err = r.env.Client.Delete(ctx, kinds.Pods, victim.Namespace, victim.Name,
			&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		r.env.Events.Doing("Preempting").Event(kinds.Pods, victim, corev1.EventTypeNormal, "Preempted",
			"Preempted by pod %s on node %s", by.UID, node)
	}
	return err
}

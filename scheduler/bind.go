package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/trail"
)

// A job writes something beside the scheduler's goroutine; what it returns then happens on that goroutine.
type job func(ctx context.Context) (done func())

// A remark is a write to a pod's status.
type remark struct {
	task *task
	said string
	do   job
}

// writeTime is the longest that one job may take.
const writeTime = 30 * time.Second

// launch starts writes, as many at once as may be.
func (r *runner) launch(ctx context.Context) {
	for r.flying < r.cfg.Parallel {
		do := r.nextJob()
		if do == nil {
			return
		}
		r.flying++
		r.wg.Go(func() {
			jctx, cancel := context.WithTimeout(ctx, writeTime)
			defer cancel()
			r.results <- do(jctx) // has room for all that fly
		})
	}
}

// nextJob takes the next write; remarks that are no longer true are left out.
func (r *runner) nextJob() job {
	if len(r.binds) > 0 {
		do := r.binds[0]
		r.binds[0] = nil
		r.binds = r.binds[1:]
		return do
	}
	for len(r.remarks) > 0 {
		m := r.remarks[0]
		r.remarks[0] = remark{}
		r.remarks = r.remarks[1:]
		t := m.task
		switch {
		case t.gone || t.said != m.said:
		case t.stage == binding || t.stage == placed:
			t.said, t.naming = "", false // not said after all
		case t.writing:
			t.next = &m
		default:
			t.writing = true
			return m.do
		}
	}
	return nil
}

func (r *runner) landed(done func()) {
	r.flying--
	if done != nil {
		done()
	}
	r.wakeDirty()
}

// assign assumes the task on the slot and has it written.
func (r *runner) assign(t *task, slot int) {
	c := t.class
	if v := c.volumes; v != nil && len(v.wait) > 0 {
		t.plan, _ = v.plan(r.st.slots[slot].node)
	}
	if c.devices != nil {
		t.devices = c.devices.plan(t.pod, r.st.slots[slot])
	}
	r.st.nominate(t, -1)
	r.st.put(t, slot)
	r.st.turn = slot + 1
	t.stage = binding
	r.wakeClass(c)
	r.stir(c)
	node := r.st.slots[slot].name
	if t.devices != nil {
		r.st.promise(t.devices)
	}
	r.giveVolumes(t, node)
}

// giveVolumes has the claims of a decided pod bound, then those to devices allocated, then the pod bound.
func (r *runner) giveVolumes(t *task, node string) {
	if t.plan == nil {
		r.giveDevices(t, node)
		return
	}
	for _, g := range t.plan.give {
		r.st.pledged[g.volume.Name] = keyOfClaim(g.claim)
	}
	r.st.volEpoch++
	plan, p := t.plan, t.pod
	r.binds = append(r.binds, func(ctx context.Context) func() {
		ctx = because(ctx, p)
		r.expect(ctx, p, node)
		err := r.writePlan(ctx, plan, node)
		return func() {
			if err != nil {
				r.unbound(t, fmt.Errorf("binding volumes: %w", err))
			} else if !t.gone {
				t.bindBy = r.env.Now().Add(t.class.profile.bindTime())
				r.volumes[t] = true
				r.checkVolumes()
			}
		}
	})
}

// expect tells others where a pod will be, because it will take a while until it is (KEP-5278). Nothing depends on it.
func (r *runner) expect(ctx context.Context, p *corev1.Pod, node string) {
	if p.Status.NominatedNodeName == node {
		return
	}
	if err := r.patchStatus(ctx, p, map[string]any{"nominatedNodeName": node}); err != nil && !apierrors.IsNotFound(err) {
		r.log.Debug("nominate", "kind", "Pod", "object", keyOf(p), "err", err)
	}
}

func (r *runner) bind(t *task, node string) {
	p := t.pod
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if t.writing { // what is being written must not come after
		t.then = func() { r.bind(t, node) }
		return
	}
	by := t.class.binder()
	r.binds = append(r.binds, func(ctx context.Context) func() {
		err := r.call(ctx, p, b, by)
		if err == nil {
			r.event(p, "Binding", corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", p.Namespace, p.Name, node))
		}
		return func() {
			if err != nil {
				r.unbound(t, err)
			} else if t.stage == binding {
				t.stage = placed
			}
		}
	})
}

// call posts a binding, or has an extender do it. When the answer says neither yes nor no, it looks: a pod that was bound after all must not
// be taken for one that was not.
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
	if rev, err := strconv.ParseInt(p.ResourceVersion, 10, 64); err == nil {
		key.Rev = rev
	}
	return trail.With(ctx, &trail.Cause{Loop: "scheduler", Key: key, Woken: []trail.Ref{key}})
}

// firstLook is the pause after a look in vain at what became of a binding; it doubles.
const firstLook = 100 * time.Millisecond

// unbound takes an assumption back: the pod was not bound.
func (r *runner) unbound(t *task, err error) {
	if t.gone || t.stage != binding {
		return
	}
	if t.pod.Spec.NodeName != "" { // it was bound all the same
		t.stage = placed
		return
	}
	r.unpledge(t)
	r.unpromise(t)
	r.unput(t)
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
		r.say(t, corev1.PodReasonSchedulerError, err.Error(), t.pod.Status.NominatedNodeName)
		if i, ok := r.st.byName[t.pod.Status.NominatedNodeName]; ok { // its room there stays its own
			r.st.nominate(t, i)
		}
	}
	if t.pod.DeletionTimestamp == nil && t.pod.Spec.NodeName == "" {
		r.q.retry(t, r.env.Now())
		r.ledger.Waits(ledgerKey(t), 0, "", err, t.due)
	}
}

// event tells of a pod, in no more words than an event may have.
func (r *runner) event(p *corev1.Pod, doing, typ, reason, text string) {
	const most, cut = 1024, " ..."
	if len(text) > most {
		text = text[:most-len(cut)] + cut
	}
	r.env.Events.Doing(doing).Event(kinds.Pods, p, typ, reason, "%s", text)
}

// reject parks a task that fits nowhere, after having made room for it where that is possible, and returns why.
func (r *runner) reject(t *task, f *failure) string {
	text := f.message()
	after := r.surrender(t)
	c, why := r.room(t, f)
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
		node = r.st.slots[t.nominee].name
	}
	t.failed = f.plugins
	r.event(t.pod, "Scheduling", corev1.EventTypeWarning, "FailedScheduling", text)
	r.say(t, corev1.PodReasonUnschedulable, text, node)
	r.q.park(t, r.env.Now())
	return text
}

// room asks for victims; pods that are alike and have no nomination get the same no.
func (r *runner) room(t *task, f *failure) (*candidate, string) {
	if !t.class.profile.on(preemptPlugin) {
		return nil, ""
	}
	if f.why != "" && t.nominee < 0 {
		return nil, f.why
	}
	c, why := r.st.preempt(t, f, r.st.budgets())
	if c == nil && t.nominee < 0 {
		f.why = why
	}
	return c, why
}

// evict sends the victims away and keeps their room for the task.
func (r *runner) evict(t *task, c *candidate) {
	for _, x := range r.st.slots[c.slot].nominees {
		if x.class.priority < t.class.priority {
			defer r.unnominate(x)
		}
	}
	r.st.nominate(t, c.slot)
	node, by := r.st.slots[c.slot].name, t.pod
	for _, v := range c.victims {
		v.evicting = true
		victim := v.pod
		r.binds = append(r.binds, func(ctx context.Context) func() {
			err := r.remove(ctx, victim, by, node)
			return func() {
				if err != nil {
					v.evicting = false
					if t.stage == parked {
						r.q.retry(t, r.env.Now())
					}
					r.log.Error("preempt", "kind", "Pod", "object", keyOf(victim), "node", node, "err", err)
				}
			}
		})
	}
}

func (r *runner) unnominate(t *task) {
	r.st.nominate(t, -1)
	r.say(t, "", "", "")
	r.q.wake(t, r.env.Now())
}

// remove tells a victim why, then deletes it.
func (r *runner) remove(ctx context.Context, victim, by *corev1.Pod, node string) error {
	ctx = because(ctx, by)
	err := r.patchStatus(ctx, victim, map[string]any{"conditions": []any{condition(victim, corev1.DisruptionTarget, corev1.ConditionTrue,
		corev1.PodReasonPreemptionByScheduler, by.Spec.SchedulerName+": preempting to accommodate a higher priority pod", r.env.Now())}})
	if err == nil {
		err = r.env.Client.Delete(ctx, kinds.Pods, victim.Namespace, victim.Name,
			&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		r.env.Events.Doing("Preempting").Beside(kinds.Pods, by).Event(kinds.Pods, victim, corev1.EventTypeNormal, "Preempted", "Preempted by pod %s on node %s", by.UID, node)
	}
	return err
}

// say writes the pod's PodScheduled condition and nomination, if they are not so already. Without a reason only
// the nomination is written.
func (r *runner) say(t *task, reason, text, nominated string) {
	p := t.pod
	saying := reason + "\n" + text + "\n" + nominated
	if t.said == saying {
		return
	}
	t.said = saying
	status := map[string]any{}
	if c := find(p, corev1.PodScheduled); reason != "" && (c == nil || c.Status != corev1.ConditionFalse || c.Reason != reason || c.Message != text) {
		status["conditions"] = []any{condition(p, corev1.PodScheduled, corev1.ConditionFalse, reason, text, r.env.Now())}
	}
	switch {
	case nominated != "" && nominated != p.Status.NominatedNodeName:
		status["nominatedNodeName"] = nominated
	case nominated == "" && p.Status.NominatedNodeName != "":
		status["nominatedNodeName"] = nil
	}
	if len(status) == 0 {
		return
	}
	_, t.naming = status["nominatedNodeName"]
	r.remarks = append(r.remarks, remark{t, saying, func(ctx context.Context) func() {
		err := r.patchStatus(because(ctx, p), p, status)
		return func() { r.said(t, err) }
	}})
}

// said ends the writing of a status.
func (r *runner) said(t *task, err error) {
	t.writing, t.naming = false, t.naming && t.next != nil
	if t.then != nil && !t.gone {
		t.then()
	}
	if t.next != nil {
		r.remarks = append(r.remarks, *t.next)
	}
	t.then, t.next = nil, nil
	if err == nil || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) {
		return
	}
	t.said = ""
	r.log.Error("write status", "kind", "Pod", "object", keyOf(t.pod), "err", err)
	if t.stage == parked { // look again, to say it again
		r.q.retry(t, r.env.Now())
	}
}

// patchStatus changes the status of exactly this pod.
func (r *runner) patchStatus(ctx context.Context, p *corev1.Pod, status map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = r.env.Client.Patch(ctx, kinds.Pods, p.Namespace, p.Name,
		client.Patch{Type: types.StrategicMergePatchType, Data: data, Sub: "status"})
	return err
}

func find(p *corev1.Pod, typ corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == typ {
			return c
		}
	}
	return nil
}

// condition makes a pod's condition; the time of its transition moves only with its status.
func condition(p *corev1.Pod, typ corev1.PodConditionType, status corev1.ConditionStatus, reason, text string, now time.Time) map[string]any {
	at := metav1.NewTime(now)
	if old := find(p, typ); old != nil && old.Status == status {
		at = old.LastTransitionTime
	}
	return map[string]any{"type": typ, "status": status, "reason": reason, "message": text, "lastTransitionTime": at, "lastProbeTime": nil,
		"observedGeneration": p.Generation}
}

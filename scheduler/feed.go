package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// apply takes a batch in, then wakes the pods that it could help.
func (r *runner) apply(b client.Batch) {
	r.st.read = b.Read
	if b.Reset {
		r.reset(b.Read)
	}
	for _, c := range b.Changes {
		r.change(c)
	}
	r.wakeDirty()
}

func (r *runner) change(c client.Change) {
	switch c.Kind {
	case kinds.Pods:
		if c.New == nil {
			r.podGone(c.Old.(*corev1.Pod))
			return
		}
		r.pod(c.New.(*corev1.Pod))
	case kinds.Nodes:
		if c.New == nil {
			r.node(c.Old.GetName(), nil)
			return
		}
		r.node(c.New.GetName(), c.New.(*corev1.Node))
	case kinds.Namespaces:
		if r.st.setNamespace(c.Object().GetName(), labels.Set(c.Object().GetLabels()), c.New != nil) {
			r.wakeWhere(podTopologySpread | interPodAffinity)
		}
	case kinds.Services:
		r.service(c)
	case kinds.ResourceClaims, kinds.ResourceSlices, kinds.DeviceClasses, kinds.DeviceTaintRules:
		r.deviceChange(c)
	default:
		r.volumeChange(c)
	}
}

// reset compares all that is known with what is.
func (r *runner) reset(read resource.Reader) {
	for _, ns := range resource.List(read, kinds.Namespaces, "") {
		r.st.setNamespace(ns.Name, labels.Set(ns.Labels), true)
	}
	nodes := map[string]bool{}
	for _, n := range resource.List(read, kinds.Nodes, "") {
		nodes[n.Name] = true
		r.node(n.Name, n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.st.byName)) { // slots get free in an order that replays
		if !nodes[name] {
			r.node(name, nil)
		}
	}
	pods := map[key]bool{}
	for _, p := range resource.List(read, kinds.Pods, "") {
		pods[keyOf(p)] = true
		r.pod(p)
	}
	for k, t := range r.st.tasks {
		if !pods[k] {
			r.drop(t)
		}
	}
	r.st.volEpoch++
	r.st.attachedOn = nil
	r.st.stock.epoch++
	r.st.stock.byResource, r.st.stock.classEpoch = nil, r.st.stock.classEpoch+1
	r.st.svcEpoch++
	r.wakeWhere(^plugin(0))
	r.checkVolumes()
	r.checkDevices()
}

func (r *runner) node(name string, n *corev1.Node) {
	if i, ok := r.st.byName[name]; ok && n == nil {
		for _, t := range slices.Clone(r.st.slots[i].nominees) {
			r.unnominate(t)
		}
	}
	if r.st.setNode(name, n) {
		r.dirty[r.st.byName[name]] = true
		r.wakeWhere(podTopologySpread | interPodAffinity)
	}
}

func (r *runner) service(c client.Change) {
	if c.Old != nil && c.New != nil && labels.Equals(c.Old.(*corev1.Service).Spec.Selector, c.New.(*corev1.Service).Spec.Selector) {
		return
	}
	r.st.svcEpoch++
}

func (r *runner) volumeChange(c client.Change) {
	if pv, ok := c.Object().(*corev1.PersistentVolume); ok && (c.New == nil || pv.Spec.ClaimRef != nil) {
		delete(r.st.pledged, pv.Name) // the volume itself says now whose it is
	}
	if c.Kind == kinds.VolumeAttachments || c.Kind == kinds.PersistentVolumes {
		r.st.attachedOn = nil
	}
	r.st.volEpoch++
	if c.Kind != kinds.VolumeAttachments || c.New == nil { // one more helps nobody
		r.wakeWhere(volumeBinding)
	}
	r.checkVolumes()
}

// pod takes in a pod as it is now.
func (r *runner) pod(p *corev1.Pod) {
	t := r.st.tasks[keyOf(p)]
	if t != nil && t.pod.UID != p.UID {
		r.drop(t)
		t = nil
	}
	if finished(p) || p.Spec.NodeName == "" && r.st.profiles[p.Spec.SchedulerName] == nil {
		if t != nil {
			r.drop(t)
		}
		return
	}
	changed := t == nil
	if t == nil {
		t = &task{pod: p, class: r.st.classOf(p), slot: -1, nominee: -1}
		t.need = t.class.need
		r.st.tasks[keyOf(p)] = t
		if resizing(p) {
			t.need = needOf(p, r.st.names)
		}
	} else {
		was := t.pod.Status.NominatedNodeName
		changed = r.update(t, p)
		if p.Spec.NodeName == "" && p.Status.NominatedNodeName != was {
			r.expected(t, p.Status.NominatedNodeName)
		}
	}
	if p.Spec.NodeName != "" {
		r.assigned(t)
	} else if t.stage != binding {
		r.pending(t, changed)
	}
}

// update swaps a task's pod; it says whether the pod changed in what matters.
func (r *runner) update(t *task, p *corev1.Pod) bool {
	old := t.pod
	t.pod = p
	if old.Generation == p.Generation && labels.Equals(old.Labels, p.Labels) && !resizing(p) && !resizing(old) &&
		(old.DeletionTimestamp == nil) == (p.DeletionTimestamp == nil) && len(old.Spec.SchedulingGates) == len(p.Spec.SchedulingGates) &&
		resourceclaim.PodStatusEqual(old.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses) {
		return false
	}
	slot, nominee := r.st.nameOf(t.slot), r.st.nameOf(t.nominee)
	if t.stage != binding {
		r.q.remove(t)
	}
	r.st.take(t)
	r.st.nominate(t, -1)
	was, needed := t.class, t.need
	t.class = r.st.classOf(p)
	if slot != "" && was != t.class {
		r.stir(was)
	}
	was.release()
	t.need = t.class.need
	if resizing(p) {
		t.need = needOf(p, r.st.names)
	}
	switch {
	case slot != "":
		r.st.put(t, r.st.slotOf(slot))
		if !slices.Equal(needed.asks, t.need.asks) {
			r.dirty[t.slot] = true // it may need less now
		}
		r.stir(t.class)
	case nominee != "":
		r.st.nominate(t, r.st.slotOf(nominee))
	}
	return true
}

// resizing tells whether the node agent reports amounts for the pod that may differ from what it asks for.
func resizing(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if t := p.Status.Conditions[i].Type; t == corev1.PodResizePending || t == corev1.PodResizeInProgress {
			return true
		}
	}
	return false
}

// assigned counts a pod where it is.
func (r *runner) assigned(t *task) {
	i := r.st.slotOf(t.pod.Spec.NodeName)
	if t.slot == i {
		return
	}
	if t.stage != binding {
		r.q.remove(t)
	}
	r.ledger.Rests(ledgerKey(t), 0)
	r.st.nominate(t, -1)
	r.unput(t)
	r.st.put(t, i)
	t.stage = placed
	r.stir(t.class)
}

// pending queues a pod that has no node.
func (r *runner) pending(t *task, changed bool) {
	now := r.env.Now()
	switch {
	case t.pod.DeletionTimestamp != nil:
		r.q.remove(t)
		r.st.nominate(t, -1)
	case len(t.pod.Spec.SchedulingGates) > 0:
		r.q.remove(t)
		t.stage = gated
		r.say(t, corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates", "")
	case changed:
		if name := t.pod.Status.NominatedNodeName; name != "" && t.nominee < 0 {
			if i, ok := r.st.byName[name]; ok {
				r.st.nominate(t, i)
			}
		}
		r.q.push(t, now)
	}
}

// expected takes in where somebody says that a pod will go (KEP-5278). What the scheduler is about to say itself counts more.
func (r *runner) expected(t *task, node string) {
	if t.naming || t.stage == binding || t.pod.DeletionTimestamp != nil {
		return
	}
	i, ok := r.st.byName[node]
	if !ok {
		i = -1
	}
	if old := t.nominee; old >= 0 && old != i {
		r.better(t, old)
	}
	r.st.nominate(t, i)
}

func (r *runner) podGone(p *corev1.Pod) {
	if t := r.st.tasks[keyOf(p)]; t != nil && t.pod.UID == p.UID {
		r.drop(t)
	}
}

// unput takes a task off its slot and notes what that may help.
func (r *runner) unput(t *task) {
	if i := t.slot; i >= 0 {
		r.st.take(t)
		r.better(t, i)
	}
}

// better notes that a slot has more room, or that a pod's labels count elsewhere.
func (r *runner) better(t *task, i int) {
	r.dirty[i] = true
	r.stir(t.class)
}

// drop forgets a task.
func (r *runner) drop(t *task) {
	t.gone = true
	tried := t.stage == active || t.stage == resting
	if t.stage != binding {
		r.q.remove(t)
	}
	delete(r.st.tasks, keyOf(t.pod))
	delete(r.volumes, t)
	delete(r.attaching, t)
	r.ledger.Rests(ledgerKey(t), 0)
	if i := t.nominee; i >= 0 {
		r.st.nominate(t, -1)
		r.better(t, i)
	}
	r.unput(t)
	if tried {
		r.wakeClass(t.class) // the next of its kind takes its turn
	}
	r.unpledge(t)
	r.unpromise(t)
	t.class.release()
}

// wakeClass lets the most urgent parked pod of a class try again; when it succeeds, the next follows.
func (r *runner) wakeClass(c *class) {
	if c.waiting.Len() > 0 {
		r.q.wake(c.waiting.list[0], r.env.Now())
	}
}

// wakeWhere wakes the classes that one of the plugins refused.
func (r *runner) wakeWhere(p plugin) {
	for c := range r.st.waiting {
		if c.waiting.list[0].failed&p != 0 {
			r.wakeClass(c)
		}
	}
}

// stir wakes the classes for whose topology a pod like c's counts.
func (r *runner) stir(c *class) {
	for w := range r.st.waiting {
		if w.waiting.list[0].failed&(podTopologySpread|interPodAffinity) == 0 || !w.ready {
			continue
		}
		if w.land.skews(c) || slices.ContainsFunc(c.terms, func(t *term) bool { return slices.Contains(w.land.repel, t) }) {
			r.wakeClass(w)
		}
	}
}

// wakeDirty wakes the classes that a slot with more room can take, and who waits for that very slot.
func (r *runner) wakeDirty() {
	if len(r.dirty) == 0 {
		return
	}
	now := r.env.Now()
	r.wakeWhere(extenders) // who knows what matters to them
	for i := range r.dirty {
		if r.st.slots[i].node == nil {
			continue
		}
		for _, t := range r.st.slots[i].nominees {
			r.q.wake(t, now)
		}
	}
	for c := range r.st.waiting {
		for i := range r.dirty {
			if s := r.st.slots[i]; s.node != nil && (!c.ready || c.check(s) == nil) {
				r.wakeClass(c)
				break
			}
		}
	}
	clear(r.dirty)
}

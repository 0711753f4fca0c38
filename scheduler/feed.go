package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
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
	r.wake.improvedNodes()
}

// change takes in one. Of a pod it is a hint to look at the state: news that comes twice may be older than what came since, and would bring
// back a pod of whose end nobody tells again.
func (r *runner) change(c client.Change) {
	switch c.Kind {
	case kinds.Pods:
		was := c.Object().(*corev1.Pod)
		if now := resource.Get(r.st.read, kinds.Pods, was.Namespace, was.Name); now != nil {
			r.pod(now)
		} else if t := r.st.tasks[keyOf(was)]; t != nil {
			r.forget(t)
		}
	case kinds.Nodes:
		if c.New == nil {
			r.node(c.Old.GetName(), nil)
			return
		}
		r.node(c.New.GetName(), c.New.(*corev1.Node))
	case kinds.Namespaces:
		if r.st.topo.setNamespace(c.Object().GetName(), labels.Set(c.Object().GetLabels()), c.New != nil) {
			r.wake.on(namespaceChanged)
		}
	case kinds.Services:
		r.service(c)
	case kinds.ResourceClaims, kinds.ResourceSlices, kinds.DeviceClasses, kinds.DeviceTaintRules:
		r.devices.change(c)
	default:
		r.volumeChange(c)
	}
}

// reset compares all that is known with what is.
func (r *runner) reset(read resource.Reader) {
	for _, ns := range resource.List(read, kinds.Namespaces, "") {
		r.st.topo.setNamespace(ns.Name, labels.Set(ns.Labels), true)
	}
	nodes := map[string]bool{}
	for _, n := range resource.List(read, kinds.Nodes, "") {
		nodes[n.Name] = true
		r.node(n.Name, n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.st.byName)) { // indexes get free in an order that replays
		if !nodes[name] {
			r.node(name, nil)
		}
	}
	pods := map[key]bool{}
	for _, p := range resource.List(read, kinds.Pods, "") {
		pods[keyOf(p)] = true
		r.pod(p)
	}
	gone := map[*task]bool{}
	for k, t := range r.st.tasks {
		if !pods[k] {
			gone[t] = true
		}
	}
	for _, t := range inOrder(gone) { // the order of the pods on a node follows from it
		r.forget(t)
	}
	r.st.volumes.settle(read)
	r.st.volumes.attachedOn = nil
	r.st.inventory.settle(read)
	r.st.inventory.byResource, r.st.inventory.classEpoch = nil, r.st.inventory.classEpoch+1
	r.st.svcEpoch++
	r.wake.on(anyEvent)
	r.volumes.check()
	r.devices.check()
}

func (r *runner) node(name string, n *corev1.Node) {
	if i, ok := r.st.byName[name]; ok && n == nil {
		for _, t := range slices.Clone(r.st.nodes[i].nominated) {
			r.unnominate(t)
		}
	}
	if r.st.setNode(name, n) {
		r.wake.improved[r.st.byName[name]] = true
		r.wake.on(nodeChanged)
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
		delete(r.st.volumes.assumed, pv.Name) // the volume itself says now whose it is
	}
	if c.Kind == kinds.VolumeAttachments || c.Kind == kinds.PersistentVolumes {
		r.st.volumes.attachedOn = nil
	}
	r.st.volumes.epoch++
	if c.Kind != kinds.VolumeAttachments || c.New == nil { // one more helps nobody
		r.wake.on(volumeChanged)
	}
	r.volumes.check()
}

// pod takes in a pod as it is now.
func (r *runner) pod(p *corev1.Pod) {
	t := r.st.tasks[keyOf(p)]
	if t != nil && t.pod.UID != p.UID {
		r.forget(t)
		t = nil
	}
	if core.Terminal(p) || p.Spec.NodeName == "" && r.st.profiles[p.Spec.SchedulerName] == nil {
		if t != nil {
			r.forget(t)
		}
		return
	}
	changed := t == nil
	if t == nil {
		t = &task{pod: p, class: r.st.classOf(p), node: -1, nominee: -1}
		t.need = t.class.need
		r.st.tasks[keyOf(p)] = t
		if resizing(p) {
			t.need = needOf(p, r.st.resources)
		}
	} else {
		was := t.pod.Status.NominatedNodeName
		changed = r.update(t, p)
		if p.Spec.NodeName == "" && p.Status.NominatedNodeName != was {
			r.nominationChanged(t, p.Status.NominatedNodeName)
		}
	}
	if p.Spec.NodeName != "" {
		r.assigned(t)
	} else if t.stage != binding && t.node < 0 { // a pod keeps its node: this may be from before the binding
		r.pending(t, changed)
	}
}

// update swaps a task's pod; it says whether the pod changed in what matters.
func (r *runner) update(t *task, p *corev1.Pod) bool {
	old := t.pod
	t.pod = p
	t.hear()
	if old.Generation == p.Generation && labels.Equals(old.Labels, p.Labels) && !resizing(p) && !resizing(old) &&
		(old.DeletionTimestamp == nil) == (p.DeletionTimestamp == nil) && len(old.Spec.SchedulingGates) == len(p.Spec.SchedulingGates) &&
		resourceclaim.PodStatusEqual(old.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses) {
		return false
	}
	slot, nominee := r.st.nameOf(t.node), r.st.nameOf(t.nominee)
	if t.stage != binding {
		r.q.remove(t)
	}
	r.st.removePod(t)
	r.st.nominate(t, -1)
	was, needed := t.class, t.need
	t.class = r.st.classOf(p)
	if slot != "" && was != t.class {
		r.wake.byTopology(was)
	}
	was.release()
	t.need = t.class.need
	if resizing(p) {
		t.need = needOf(p, r.st.resources)
	}
	switch {
	case slot != "":
		r.st.addPod(t, r.st.indexOf(slot))
		if !slices.Equal(needed.asks, t.need.asks) {
			r.wake.improved[t.node] = true // it may need less now
		}
		r.wake.byTopology(t.class)
	case nominee != "":
		r.st.nominate(t, r.st.indexOf(nominee))
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
	i := r.st.indexOf(t.pod.Spec.NodeName)
	if t.node == i {
		return
	}
	if t.stage != binding {
		r.q.remove(t)
	}
	r.records.Rests(recordKey(t), 0)
	r.st.nominate(t, -1)
	r.removeAssumed(t)
	r.st.addPod(t, i)
	t.stage = placed
	r.wake.byTopology(t.class)
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
		r.status.set(t, corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates", "")
	case changed:
		if name := t.pod.Status.NominatedNodeName; name != "" && t.nominee < 0 {
			if i, ok := r.st.byName[name]; ok {
				r.st.nominate(t, i)
			}
		}
		r.q.push(t, now)
	}
}

// nominationChanged takes in where somebody says that a pod will go (KEP-5278). What the scheduler itself is about to write counts more.
func (r *runner) nominationChanged(t *task, node string) {
	if t.nominating || t.stage == binding || t.pod.DeletionTimestamp != nil {
		return
	}
	i, ok := r.st.byName[node]
	if !ok {
		i = -1
	}
	if old := t.nominee; old >= 0 && old != i {
		r.wake.nodeImproved(t, old)
	}
	r.st.nominate(t, i)
}

// removeAssumed takes a task off its node and notes what that may help.
func (r *runner) removeAssumed(t *task) {
	if i := t.node; i >= 0 {
		r.st.removePod(t)
		r.wake.nodeImproved(t, i)
	}
}

// forget drops a task and wakes who waited for its place.
func (r *runner) forget(t *task) {
	t.gone = true
	tried := t.stage == active || t.stage == inBackoff
	if t.stage != binding {
		r.q.remove(t)
	}
	delete(r.st.tasks, keyOf(t.pod))
	delete(r.st.inventory.made, t.pod.UID)
	delete(r.volumes.waiting, t)
	delete(r.devices.waiting, t)
	r.records.Rests(recordKey(t), 0)
	if i := t.nominee; i >= 0 {
		r.st.nominate(t, -1)
		r.wake.nodeImproved(t, i)
	}
	r.removeAssumed(t)
	if tried {
		r.wake.class(t.class) // the next of its kind takes its turn
	}
	r.volumes.forget(t)
	r.devices.forget(t)
	t.class.release()
}

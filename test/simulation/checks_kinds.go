package simulation

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// pod checks what a change of a pod may not do.
func (c *checks) pod(m moment, x view.Change) {
	var was, is *corev1.Pod
	if x.Old != nil {
		was = x.Old.Object.(*corev1.Pod)
	}
	if x.New != nil {
		is = x.New.Object.(*corev1.Pod)
	}
	c.readiness(was, is)
	c.tallyPod(was, is)
	c.removed(m, was, is)
	switch {
	case is == nil:
	case is.Spec.NodeName != "" && (was == nil || was.Spec.NodeName == ""):
		c.fits(m, is.Spec.NodeName)
		c.equipped(m, is)
	}
	if was == nil && is != nil {
		c.made(m, is)
		c.quota(m, is)
	}
	c.evicted(m, was, is)
	c.preempted(was, is)
	c.floors(m, was, is)
}

// readiness keeps who was ever ready, and who is no more.
func (c *checks) readiness(was, is *corev1.Pod) {
	switch {
	case is != nil && isReady(is) && active(is):
		c.wasReady[is.UID] = is.Status.PodIP
		delete(c.unready, is.UID)
	case was != nil && c.wasReady[was.UID] != "":
		if _, known := c.unready[was.UID]; !known {
			c.unready[was.UID] = time.Now()
		}
	}
}

// removed checks that nobody but its node says that a pod which may run has ended, as long as the node is there: else
// it might run twice. Who has no grace left is as good as removed.
func (c *checks) removed(m moment, was, is *corev1.Pod) {
	p := was
	if c.mover == "sim-pod" || p == nil || p.Spec.NodeName == "" || over(p) || noGrace(p) || is != nil && !noGrace(is) ||
		m.snap.Lookup(kinds.Nodes, "", p.Spec.NodeName) == nil {
		return
	}
	c.w.fail("%s removed pod %s, which may still run on %s", c.mover, p.Name, p.Spec.NodeName)
}

func noGrace(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
}

// fits checks that what is bound to a node fits there.
func (c *checks) fits(m moment, name string) {
	n, _ := m.snap.Lookup(kinds.Nodes, "", name).(*corev1.Node)
	if n == nil {
		return
	}
	var cpu, pods int64
	ports := map[int32]string{}
	for _, p := range resource.Where(m.snap, kinds.Pods, "spec.nodeName", name) {
		if over(p) {
			continue
		}
		pods++
		for i := range p.Spec.Containers {
			cpu += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
			for _, port := range p.Spec.Containers[i].Ports {
				if other := ports[port.HostPort]; port.HostPort != 0 && other != "" {
					c.w.fail("pods %s and %s both have port %d of %s", p.Name, other, port.HostPort, name)
				}
				ports[port.HostPort] = p.Name
			}
		}
	}
	has := n.Status.Allocatable
	if cpu > has.Cpu().MilliValue() || pods > has.Pods().Value() {
		c.w.fail("%d pods that ask for %dm CPU are bound to %s, which has %s CPU and room for %s", pods, cpu, name, has.Cpu(), has.Pods())
	}
}

// made checks that nobody makes more pods than were asked for.
func (c *checks) made(m moment, p *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || c.doubtful(c.mover) {
		return
	}
	var list []*corev1.Pod
	for _, o := range resource.List(m.snap, kinds.Pods, p.Namespace) {
		if r := metav1.GetControllerOfNoCopy(o); r != nil && r.UID == ref.UID && active(o) {
			list = append(list, o)
		}
	}
	most := int(c.limit(ref.UID).most())
	switch ref.Kind {
	case "ReplicaSet", "ReplicationController":
	case "DaemonSet":
		list = slices.DeleteFunc(list, func(o *corev1.Pod) bool { return pinnedTo(o) != pinnedTo(p) })
		most = 1
		if ds := resource.Get(m.snap, kinds.DaemonSets, p.Namespace, ref.Name); ds != nil && ds.Spec.UpdateStrategy.RollingUpdate != nil &&
			ds.Spec.UpdateStrategy.RollingUpdate.MaxSurge != nil && ds.Spec.UpdateStrategy.RollingUpdate.MaxSurge.IntVal > 0 {
			most = 2
		}
	case "Job":
		index, indexed := p.Annotations[batchv1.JobCompletionIndexAnnotation]
		if indexed {
			most = 1
			list = slices.DeleteFunc(list, func(o *corev1.Pod) bool { return o.Annotations[batchv1.JobCompletionIndexAnnotation] != index })
			if by := c.tally(ref.UID).indexes[index]; by != "" {
				c.w.fail("job %s runs index %s again as %s; %s had completed it", ref.Name, index, p.Name, by)
			}
		}
	default:
		return
	}
	if len(list) > most {
		c.w.fail("%s %s has %d pods where %d were asked for: %s", ref.Kind, ref.Name, len(list), most, names(list))
	}
}

func names(list []*corev1.Pod) string {
	var s []string
	for _, p := range list {
		s = append(s, p.Name)
	}
	return fmt.Sprint(s)
}

// pinnedTo is the node that a daemon's pod is for.
func pinnedTo(p *corev1.Pod) string {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range t.MatchFields {
				return f.Values[0]
			}
		}
	}
	return p.Spec.NodeName
}

// endpoints checks that an endpoint that is called ready is the address of a pod that was ready, and not long ago.
func (c *checks) endpoints(_ moment, x view.Change) {
	if x.New == nil || c.mover != "endpointslice" {
		return
	}
	es := x.New.Object.(*discoveryv1.EndpointSlice)
	for _, e := range es.Endpoints {
		if e.TargetRef == nil || e.Conditions.Ready == nil || !*e.Conditions.Ready {
			continue
		}
		uid := e.TargetRef.UID
		if ip := c.wasReady[uid]; ip == "" || !slices.Contains(e.Addresses, ip) {
			c.w.fail("endpoint %v of %s is called ready; pod %s never was, at that address", e.Addresses, es.Name, e.TargetRef.Name)
		}
		if since, not := c.unready[uid]; not && time.Since(since) > stale+resync+resync/10 {
			c.w.fail("endpoint %v of %s is called ready; pod %s has not been for %s", e.Addresses, es.Name, e.TargetRef.Name, time.Since(since))
		}
	}
}

// replicaSet checks a rollout's ceiling, and that a template has one set.
func (c *checks) replicaSet(m moment, x view.Change) {
	if x.New == nil {
		return
	}
	rs := x.New.Object.(*appsv1.ReplicaSet)
	c.limit(rs.UID).ask(*rs.Spec.Replicas)
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil {
		return
	}
	grew := x.Old == nil || *rs.Spec.Replicas > *x.Old.Object.(*appsv1.ReplicaSet).Spec.Replicas
	total := int32(0)
	for _, o := range resource.List(m.snap, kinds.ReplicaSets, rs.Namespace) {
		if r := metav1.GetControllerOfNoCopy(o); r == nil || r.UID != ref.UID {
			continue
		}
		total += *o.Spec.Replicas
		if hash := appsv1.DefaultDeploymentUniqueLabelKey; o.Name != rs.Name && x.Old == nil && o.Labels[hash] == rs.Labels[hash] {
			c.w.fail("deployment %s has two sets for one template: %s and %s", ref.Name, o.Name, rs.Name)
		}
	}
	if most := c.limit(ref.UID).most(); grew && total > most {
		c.w.fail("%s: the sets of deployment %s have %d replicas, more than the %d that it may have with its surge", c.mover, ref.Name,
			total, most)
	}
}

// floorOf marks how few pods may be ready beside how many there may be.
const floorOf types.UID = "/floor"

func (c *checks) deployment(_ moment, x view.Change) {
	if x.New == nil {
		return
	}
	d := x.New.Object.(*appsv1.Deployment)
	most, least := *d.Spec.Replicas, *d.Spec.Replicas
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		most += r.MaxSurge.IntVal
		least -= r.MaxUnavailable.IntVal
	}
	c.limit(d.UID).ask(most)
	c.limit(d.UID + floorOf).ask(least)
	if x.Old != nil && *x.Old.Object.(*appsv1.Deployment).Spec.Replicas != *d.Spec.Replicas {
		delete(c.calm, d.UID)
	}
}

// floors checks that a rollout leaves as many pods ready as it must. That holds as long as nobody else takes pods
// away, and the loop that rolls acts on what is.
func (c *checks) floors(m moment, was, is *corev1.Pod) {
	p := is
	if p == nil {
		p = was
	}
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return
	}
	rs := resource.Get(m.snap, kinds.ReplicaSets, p.Namespace, ref.Name)
	if rs == nil || rs.UID != ref.UID {
		return
	}
	top := metav1.GetControllerOfNoCopy(rs)
	if top == nil {
		return
	}
	d := resource.Get(m.snap, kinds.Deployments, p.Namespace, top.Name)
	if d == nil || d.UID != top.UID || d.DeletionTimestamp != nil || d.Spec.Strategy.RollingUpdate == nil {
		return
	}
	ready := int32(0)
	for _, o := range resource.List(m.snap, kinds.Pods, p.Namespace) {
		if o.Labels["app"] == d.Spec.Selector.MatchLabels["app"] && active(o) && isReady(o) {
			ready++
		}
	}
	lost := was != nil && isReady(was) && active(was) && (is == nil || !isReady(is) || !active(is))
	switch {
	case lost && c.mover != "replicaset":
		delete(c.calm, d.UID)
	case ready >= *d.Spec.Replicas:
		c.calm[d.UID] = true
	}
	if floor := c.limit(d.UID + floorOf).least(); c.calm[d.UID] && c.w.prompt && ready < floor {
		c.w.fail("%s: deployment %s has %d pods ready and may not have fewer than %d", c.mover, d.Name, ready, floor)
	}
}

// tally counts what happened to a job's pods.
type tally struct {
	all, succeeded, failed map[types.UID]bool
	indexes                map[string]string // that were completed: by which pod
	done                   string
}

func (c *checks) tally(uid types.UID) *tally {
	t := c.jobs[uid]
	if t == nil {
		t = &tally{all: map[types.UID]bool{}, succeeded: map[types.UID]bool{}, failed: map[types.UID]bool{}, indexes: map[string]string{}}
		c.jobs[uid] = t
	}
	return t
}

// tallyPod counts how a job's pods end.
func (c *checks) tallyPod(was, is *corev1.Pod) {
	p := is
	if p == nil {
		p = was
	}
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || ref.Kind != "Job" {
		return
	}
	t := c.tally(ref.UID)
	t.all[p.UID] = true
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		t.succeeded[p.UID] = true
		if index, ok := p.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
			t.indexes[index] = p.Name
		}
	case p.Status.Phase == corev1.PodFailed, p.DeletionTimestamp != nil:
		t.failed[p.UID] = true
	}
}

// job checks that each pod is counted at most once, and that an end is final.
func (c *checks) job(m moment, x view.Change) {
	if x.New == nil {
		return
	}
	j := x.New.Object.(*batchv1.Job)
	c.limit(j.UID).ask(*j.Spec.Parallelism)
	t := c.tally(j.UID)
	good, bad := int(j.Status.Succeeded), int(j.Status.Failed)
	if u := j.Status.UncountedTerminatedPods; u != nil {
		good += len(u.Succeeded)
		bad += len(u.Failed)
	}
	if indexed := j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion; indexed {
		good = int(j.Status.Succeeded)
	}
	ends := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobFailureTarget })
	if good > len(t.succeeded) || bad > len(t.failed) && !ends ||
		good+bad > len(t.all) { // with a job that fails fail those of its pods that run
		c.w.fail("job %s counts %d pods as succeeded and %d as failed; %d and %d of %d were", j.Name, good, bad, len(t.succeeded),
			len(t.failed), len(t.all))
	}
	if was, _ := of[*batchv1.Job](x); was == nil {
		c.cronRun(m, j)
	} else if j.Status.Succeeded < was.Status.Succeeded || j.Status.Failed < was.Status.Failed {
		c.w.fail("job %s counted %d and %d pods, and now %d and %d", j.Name, was.Status.Succeeded, was.Status.Failed, j.Status.Succeeded,
			j.Status.Failed)
	}
	done := ended(j)
	if t.done != "" && t.done != done || done == "CompleteFailed" || done == "FailedComplete" {
		c.w.fail("job %s was %q and is %q", j.Name, t.done, done)
	}
	t.done = done
}

// service checks that no two services share an address.
func (c *checks) service(m moment, x view.Change) {
	if x.New == nil || x.Old != nil {
		return
	}
	svc := x.New.Object.(*corev1.Service)
	for _, o := range resource.List(m.snap, kinds.Services, "") {
		if o.UID != svc.UID && o.Spec.ClusterIP == svc.Spec.ClusterIP && svc.Spec.ClusterIP != corev1.ClusterIPNone {
			c.w.fail("services %s and %s both have %s", o.Name, svc.Name, svc.Spec.ClusterIP)
		}
	}
}

// claim checks that a volume has one claim.
func (c *checks) claim(m moment, x view.Change) {
	if x.New == nil {
		return
	}
	pvc := x.New.Object.(*corev1.PersistentVolumeClaim)
	if was, _ := of[*corev1.PersistentVolumeClaim](x); was != nil && was.Spec.VolumeName != "" && was.Spec.VolumeName != pvc.Spec.VolumeName {
		c.w.fail("claim %s had volume %s and has %s", pvc.Name, was.Spec.VolumeName, pvc.Spec.VolumeName)
	}
	for _, o := range resource.List(m.snap, kinds.PersistentVolumeClaims, "") {
		if o.UID != pvc.UID && o.Spec.VolumeName != "" && o.Spec.VolumeName == pvc.Spec.VolumeName {
			c.w.fail("claims %s and %s both have volume %s", o.Name, pvc.Name, o.Spec.VolumeName)
		}
	}
}

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A count follows the number of available pods of a workload over time.
type count struct {
	Workload
	now     int
	since   time.Time
	touched bool
}

// A tracker follows which pods are available from the change on, and which were made to go.
type tracker struct {
	from     time.Time
	counts   map[Object]*count
	owners   map[types.UID]Object // the workload of a pod's controller
	victims  []Preemption
	taints   []Eviction
	film     film
	read     resource.Reader
	finished bool
}

// follow begins with what is there.
func follow(read resource.Reader) *tracker {
	t := &tracker{from: time.Now(), film: film{from: time.Now()}, counts: map[Object]*count{}, owners: map[types.UID]Object{}, read: read}
	for _, p := range resource.List(read, kinds.Pods, "") {
		if o, ok := t.workload(p); ok {
			c := t.count(o)
			if available(p) {
				c.now++
				c.Before, c.Least = c.now, c.now
			}
		}
	}
	return t
}

// available says that a pod serves: it is ready and stays.
func available(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp == nil && ready(p) }

func (t *tracker) count(o Object) *count {
	c := t.counts[o]
	if c == nil {
		c = &count{Workload: Workload{Object: o}, since: t.from}
		t.counts[o] = c
	}
	return c
}

// workload returns the object that a pod belongs to: the Deployment of its ReplicaSet, or what controls it. Jobs have no number that
// is to be there.
func (t *tracker) workload(p *corev1.Pod) (Object, bool) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return Object{"Pod", p.Namespace, p.Name}, !core.Terminal(p)
	}
	if ref.Kind == "Job" {
		return Object{}, false
	}
	if o, ok := t.owners[ref.UID]; ok {
		return o, true
	}
	o := Object{ref.Kind, p.Namespace, ref.Name}
	if group, _ := schema.ParseGroupVersion(ref.APIVersion); group.Group != "" && group.Group != appsv1.GroupName {
		o.Kind = outsideKind(ref.Kind, group.Group)
	} else if ref.Kind == "ReplicaSet" {
		if rs := resource.Get(t.read, kinds.ReplicaSets, p.Namespace, ref.Name); rs != nil {
			if up := metav1.GetControllerOfNoCopy(rs); up != nil {
				o = Object{up.Kind, p.Namespace, up.Name}
			}
		}
	}
	t.owners[ref.UID] = o
	return o, true
}

// outsideKind names a kind of another group. Some operators have a StatefulSet of their own, of whose size nothing is known.
func outsideKind(kind, group string) string {
	switch kind {
	case "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController":
		return kind + "." + group
	}
	return kind
}

// see takes in what changed.
func (t *tracker) see(b view.Batch) {
	if t.finished {
		return
	}
	t.read = b.Snapshot
	for _, c := range b.Changes {
		if c.Kind != resource.Kind(kinds.Pods) {
			continue
		}
		var was, is *corev1.Pod
		if c.Old != nil {
			was = resource.As[*corev1.Pod](c.Old.Object)
		}
		if c.New != nil {
			is = resource.As[*corev1.Pod](c.New.Object)
		}
		t.pod(was, is)
	}
}

func (t *tracker) pod(was, is *corev1.Pod) {
	p := is
	if p == nil {
		p = was
	}
	o, ok := t.workload(p)
	if !ok {
		return
	}
	c, step := t.count(o), 0
	if available(was) {
		step--
	}
	if available(is) {
		step++
	}
	c.touched = c.touched || was == nil || is == nil || step != 0
	if step != 0 {
		c.lasted(time.Now())
		if c.now += step; c.now < c.Least {
			c.Least, c.At = c.now, Duration(time.Since(t.from))
		}
	}
	t.film.shoot(was, is, o, c.now)
	if is != nil && (was == nil || was.DeletionTimestamp == nil) && is.DeletionTimestamp != nil || is == nil && was.DeletionTimestamp == nil {
		t.target(p, o)
	}
}

// target notes who had a pod go.
func (t *tracker) target(p *corev1.Pod, owner Object) {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue {
			continue
		}
		at, name := Duration(time.Since(t.from)), Object{"Pod", p.Namespace, p.Name}
		switch c.Reason {
		case corev1.PodReasonPreemptionByScheduler:
			t.victims = append(t.victims, Preemption{Object: name, Owner: owner.String(), Node: p.Spec.NodeName, After: at, For: c.Message})
		case "DeletionByTaintManager", "DeletionByDeviceTaintManager":
			t.taints = append(t.taints, Eviction{Object: name, Owner: owner.String(), Node: p.Spec.NodeName, After: at, Why: c.Message})
		}
	}
}

// lasted counts the time since the last step.
func (c *count) lasted(now time.Time) {
	span := Duration(max(0, now.Sub(c.since)))
	c.since = now
	if c.now < c.Before {
		c.Short += span
	}
	if c.now == 0 && c.Before > 0 {
		c.None += span
	}
}

// finish returns the workloads that were touched, those in trouble first. What lasts counts until all came to rest.
func (t *tracker) finish(read resource.Reader, rest time.Time) (list []Workload) {
	t.finished = true
	for _, c := range t.counts {
		c.lasted(rest)
		c.After, c.Wanted = c.now, wanted(read, c.Object, c.Before)
		if c.Wanted < c.Before { // it was made smaller: fewer are no loss
			c.Short, c.None = 0, 0
			if c.Least >= c.Wanted {
				c.Least, c.At = c.After, 0
			}
		}
		if c.touched || c.After < c.Wanted && c.After < c.Before {
			list = append(list, c.Workload)
		}
	}
	coldsort.Func(list, func(a, b Workload) int {
		return cmp.Or(-cmp.Compare(a.Wanted-a.After, b.Wanted-b.After), -cmp.Compare(a.None, b.None), -cmp.Compare(a.Short, b.Short),
			compare(a.Object, b.Object))
	})
	return list
}

// wanted is the number of pods that a workload is to have; those that are gone are to have none.
func wanted(read resource.Reader, o Object, before int) int {
	switch o.Kind {
	case "Deployment":
		if d := resource.Get(read, kinds.Deployments, o.Namespace, o.Name); d != nil {
			return replicas(d.Spec.Replicas)
		}
	case "StatefulSet":
		if s := resource.Get(read, kinds.StatefulSets, o.Namespace, o.Name); s != nil {
			return replicas(s.Spec.Replicas)
		}
	case "ReplicaSet":
		if s := resource.Get(read, kinds.ReplicaSets, o.Namespace, o.Name); s != nil {
			return replicas(s.Spec.Replicas)
		}
	case "ReplicationController":
		if s := resource.Get(read, kinds.ReplicationControllers, o.Namespace, o.Name); s != nil {
			return replicas(s.Spec.Replicas)
		}
	case "DaemonSet":
		if d := resource.Get(read, kinds.DaemonSets, o.Namespace, o.Name); d != nil {
			return int(d.Status.DesiredNumberScheduled)
		}
	default: // pods of their own, and of controllers outside
		return before
	}
	return 0
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// sortedCounts lists webhooks by name.
func sortedCounts(m map[string]int) (list []Asked) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, Asked{name, m[name]})
	}
	return list
}

package health

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A workload holds the rules by which objects of a kind that runs copies of a pod are judged: by the first row that does not hold.
type workload[T resource.Object] struct {
	observed func(T) int64
	rows     []row[T]
	since    func(T) time.Time // when it began, if the last change of the spec is too long ago; nil: nobody tells
}

// A figure is a field that counts something.
type figure[T resource.Object] struct {
	field string
	of    func(T) int32
}

// A row says that one figure may not be less, or more, than another one.
type row[T resource.Object] struct {
	want figure[T]
	is   func(have, want int32) bool
	have figure[T]
	what string                        // of which there are so many: "has 1 of 3 pods"
	says func(have, want int32) string // in place of what
	only func(T) bool                  // nil: the row is for all objects
}

func less(have, want int32) bool { return have < want }

func more(have, want int32) bool { return have > want }

// health judges by the rows.
func (x workload[T]) health(_ *converge.World, obj T) converge.Health {
	if h, is := general.Behind(obj.GetGeneration(), x.observed(obj)); is {
		return h
	}
	for _, r := range x.rows {
		want, have := r.want.of(obj), r.have.of(obj)
		if !r.is(have, want) || r.only != nil && !r.only(obj) {
			continue
		}
		h := short(r.want.field, want, r.have.field, have, r.what)
		if r.says != nil {
			h.Says = r.says(have, want)
		}
		if x.since != nil {
			h.Since = x.since(obj)
		}
		return h
	}
	return converge.Health{}
}

func deployments() workload[*appsv1.Deployment] {
	type of = figure[*appsv1.Deployment]
	wanted := of{"spec.replicas", func(d *appsv1.Deployment) int32 { return ptr.Deref(d.Spec.Replicas, 1) }}
	all := of{"status.replicas", func(d *appsv1.Deployment) int32 { return d.Status.Replicas }}
	updated := of{"status.updatedReplicas", func(d *appsv1.Deployment) int32 { return d.Status.UpdatedReplicas }}
	available := of{"status.availableReplicas", func(d *appsv1.Deployment) int32 { return d.Status.AvailableReplicas }}
	older := func(have, want int32) string {
		return fmt.Sprintf("still has %s of older templates", words.Count(int(have-want), "replica"))
	}
	return workload[*appsv1.Deployment]{func(d *appsv1.Deployment) int64 { return d.Status.ObservedGeneration }, []row[*appsv1.Deployment]{
		{want: wanted, is: less, have: updated, what: "replicas of the newest template"},
		{want: wanted, is: less, have: available, what: "replicas available"},
		{want: updated, is: more, have: all, says: older},
		{want: wanted, is: more, have: all, what: "replicas, some too many"},
	}, unavailable}
}

// unavailable is the time at which a deployment lost what made it available, if it did since its spec was changed.
func unavailable(d *appsv1.Deployment) (at time.Time) {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse && c.LastTransitionTime.After(converge.Changed(d)) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// lost is the time of the newest change of the status, if that is later than the one of the spec: what has all pods that it wants, and then
// loses one, is not what it should be since then.
func lost[T resource.Object](obj T) (at time.Time) {
	for _, m := range obj.GetManagedFields() {
		if m.Subresource == "status" && m.Time != nil && m.Time.After(at) && m.Time.After(converge.Changed(obj)) {
			at = m.Time.Time
		}
	}
	return at
}

func replicaSets() workload[*appsv1.ReplicaSet] {
	return copies(func(r *appsv1.ReplicaSet) (*int32, appsv1.ReplicaSetStatus) { return r.Spec.Replicas, r.Status })
}

func replicationControllers() workload[*corev1.ReplicationController] {
	return copies(func(r *corev1.ReplicationController) (*int32, appsv1.ReplicaSetStatus) {
		s := &r.Status
		return r.Spec.Replicas, appsv1.ReplicaSetStatus{Replicas: s.Replicas, ReadyReplicas: s.ReadyReplicas,
			AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration}
	})
}

// copies judges what keeps a number of equal pods.
func copies[T resource.Object](of func(T) (replicas *int32, status appsv1.ReplicaSetStatus)) workload[T] {
	counts := func(field string, count func(s *appsv1.ReplicaSetStatus) int32) figure[T] {
		return figure[T]{field, func(obj T) int32 { _, s := of(obj); return count(&s) }}
	}
	wanted := figure[T]{"spec.replicas", func(obj T) int32 { n, _ := of(obj); return ptr.Deref(n, 1) }}
	all := counts("status.replicas", func(s *appsv1.ReplicaSetStatus) int32 { return s.Replicas })
	return workload[T]{observed: func(obj T) int64 { _, s := of(obj); return s.ObservedGeneration }, rows: []row[T]{
		{want: wanted, is: less, have: all, what: "pods"},
		{want: wanted, is: more, have: all, what: "pods, some too many"},
		{want: wanted, is: less, have: counts("status.readyReplicas", func(s *appsv1.ReplicaSetStatus) int32 { return s.ReadyReplicas }),
			what: "pods ready"},
		{want: wanted, is: less, have: counts("status.availableReplicas",
			func(s *appsv1.ReplicaSetStatus) int32 { return s.AvailableReplicas }), what: "pods available"},
	}, since: lost[T]}
}

func statefulSets() workload[*appsv1.StatefulSet] {
	type of = figure[*appsv1.StatefulSet]
	wanted := of{"spec.replicas", func(s *appsv1.StatefulSet) int32 { return ptr.Deref(s.Spec.Replicas, 1) }}
	all := of{"status.replicas", func(s *appsv1.StatefulSet) int32 { return s.Status.Replicas }}
	ready := of{"status.readyReplicas", func(s *appsv1.StatefulSet) int32 { return s.Status.ReadyReplicas }}
	available := of{"status.availableReplicas", func(s *appsv1.StatefulSet) int32 { return s.Status.AvailableReplicas }}
	updated := of{"status.updatedReplicas", func(s *appsv1.StatefulSet) int32 { return s.Status.UpdatedReplicas }}
	due := of{"spec.replicas", func(s *appsv1.StatefulSet) int32 { // but for those below the partition
		if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
			return ptr.Deref(s.Spec.Replicas, 1) - ptr.Deref(r.Partition, 0)
		}
		return ptr.Deref(s.Spec.Replicas, 1)
	}}
	rolls := func(s *appsv1.StatefulSet) bool {
		return s.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType && s.Status.UpdateRevision != s.Status.CurrentRevision
	}
	return workload[*appsv1.StatefulSet]{observed: func(s *appsv1.StatefulSet) int64 { return s.Status.ObservedGeneration },
		rows: []row[*appsv1.StatefulSet]{
			{want: wanted, is: less, have: all, what: "pods"},
			{want: wanted, is: more, have: all, what: "pods"},
			{want: wanted, is: less, have: ready, what: "pods ready"},
			{want: wanted, is: less, have: available, what: "pods available"},
			{want: due, is: less, have: updated, what: "pods of the newest template", only: rolls},
		}, since: func(s *appsv1.StatefulSet) (at time.Time) {
			if !rolls(s) { // a rollout goes on since its template came
				at = lost(s)
			}
			return at
		}}
}

func daemonSets() workload[*appsv1.DaemonSet] {
	type of = figure[*appsv1.DaemonSet]
	wanted := of{"status.desiredNumberScheduled", func(d *appsv1.DaemonSet) int32 { return d.Status.DesiredNumberScheduled }}
	all := of{"status.currentNumberScheduled", func(d *appsv1.DaemonSet) int32 { return d.Status.CurrentNumberScheduled }}
	updated := of{"status.updatedNumberScheduled", func(d *appsv1.DaemonSet) int32 { return d.Status.UpdatedNumberScheduled }}
	ready := of{"status.numberReady", func(d *appsv1.DaemonSet) int32 { return d.Status.NumberReady }}
	available := of{"status.numberAvailable", func(d *appsv1.DaemonSet) int32 { return d.Status.NumberAvailable }}
	rolls := func(d *appsv1.DaemonSet) bool {
		return d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType
	}
	return workload[*appsv1.DaemonSet]{observed: func(d *appsv1.DaemonSet) int64 { return d.Status.ObservedGeneration },
		rows: []row[*appsv1.DaemonSet]{
			{want: wanted, is: less, have: all, what: "pods"},
			{want: wanted, is: less, have: updated, what: "pods of the newest template", only: rolls},
			{want: wanted, is: less, have: ready, what: "pods ready"},
			{want: wanted, is: less, have: available, what: "pods available"},
		}, since: func(d *appsv1.DaemonSet) (at time.Time) {
			if d.Status.UpdatedNumberScheduled >= d.Status.DesiredNumberScheduled {
				at = lost(d)
			}
			return at
		}}
}

// jobHealth finds no gap in a job that is at work, nor in one that is suspended: its spec says so.
func jobHealth(w *converge.World, j *batchv1.Job) converge.Health {
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobSuspended, batchv1.JobSuccessCriteriaMet:
			return converge.Health{}
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			return converge.Health{Says: "failed", Want: fmt.Sprintf("spec.completions=%d", ptr.Deref(j.Spec.Completions, 1)),
				Have: fmt.Sprintf("status.succeeded=%d", j.Status.Succeeded), Since: c.LastTransitionTime.Time}
		}
	}
	if ptr.Deref(j.Spec.Suspend, false) || ptr.Deref(j.Spec.Parallelism, 1) == 0 && j.Status.Active == 0 {
		return converge.Health{}
	}
	want := ptr.Deref(j.Spec.Completions, ptr.Deref(j.Spec.Parallelism, 1))
	if j.Status.Active > 0 && j.Status.Failed == 0 && ptr.Deref(j.Status.Ready, 0) == j.Status.Active {
		return converge.Health{}
	}
	return short("spec.completions", want, "status.succeeded", j.Status.Succeeded, "completions")
}

// Asleep names the workload of a service that wants no pods, now or any more; "": there is none.
func Asleep(w *converge.World, s *corev1.Service) (name string) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	add := func(k resource.Kind, obj resource.Object, t *corev1.PodTemplateSpec, rests bool) {
		if name == "" && rests && sel.Matches(labels.Set(t.Labels)) {
			name = new(converge.ObjectOf(k, obj)).Short()
		}
	}
	for _, d := range resource.List(w.Read, kinds.Deployments, s.Namespace) {
		add(kinds.Deployments, d, &d.Spec.Template, ptr.Deref(d.Spec.Replicas, 1) == 0)
	}
	for _, d := range resource.List(w.Read, kinds.StatefulSets, s.Namespace) {
		add(kinds.StatefulSets, d, &d.Spec.Template, ptr.Deref(d.Spec.Replicas, 1) == 0)
	}
	for _, d := range resource.List(w.Read, kinds.DaemonSets, s.Namespace) {
		add(kinds.DaemonSets, d, &d.Spec.Template, d.Status.ObservedGeneration == d.Generation && d.Status.DesiredNumberScheduled == 0)
	}
	for _, j := range resource.List(w.Read, kinds.Jobs, s.Namespace) {
		add(kinds.Jobs, j, &j.Spec.Template, j.Status.Active == 0 && jobHealth(w, j).Converged())
	}
	for _, c := range resource.List(w.Read, kinds.CronJobs, s.Namespace) {
		add(kinds.CronJobs, c, &c.Spec.JobTemplate.Spec.Template, true)
	}
	return name
}

// TemplateOf is the pod template of a workload; nil: it has none.
func TemplateOf(obj resource.Object) *corev1.PodTemplateSpec {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Template
	case *appsv1.StatefulSet:
		return &obj.Spec.Template
	case *appsv1.DaemonSet:
		return &obj.Spec.Template
	case *appsv1.ReplicaSet:
		return &obj.Spec.Template
	case *corev1.ReplicationController:
		return obj.Spec.Template
	}
	return nil
}

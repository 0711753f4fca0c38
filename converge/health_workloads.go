package converge

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func deploymentHealth(_ *World, d *appsv1.Deployment) Health {
	if h, is := behind(d.Generation, d.Status.ObservedGeneration); is {
		return h
	}
	want, st := deref(d.Spec.Replicas, 1), &d.Status
	var h Health
	switch {
	case st.UpdatedReplicas < want:
		h = short("spec.replicas", want, "status.updatedReplicas", st.UpdatedReplicas, "replicas of the newest template")
	case st.AvailableReplicas < want:
		h = short("spec.replicas", want, "status.availableReplicas", st.AvailableReplicas, "replicas available")
	case st.Replicas > st.UpdatedReplicas:
		old := st.Replicas - st.UpdatedReplicas
		h = Health{Says: fmt.Sprintf("still has %s of older templates", count(int(old), "replica")),
			Want: fmt.Sprintf("status.updatedReplicas=%d", st.UpdatedReplicas), Have: fmt.Sprintf("status.replicas=%d", st.Replicas)}
	case st.Replicas > want:
		h = short("spec.replicas", want, "status.replicas", st.Replicas, "replicas, some too many")
	default:
		return Health{}
	}
	for _, c := range st.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse && c.LastTransitionTime.After(changed(d)) {
			h.Since = c.LastTransitionTime.Time
		}
	}
	return h
}

func replicaSetHealth(_ *World, rs *appsv1.ReplicaSet) Health {
	if h, is := behind(rs.Generation, rs.Status.ObservedGeneration); is {
		return h
	}
	want, st := deref(rs.Spec.Replicas, 1), &rs.Status
	switch {
	case st.Replicas < want:
		return short("spec.replicas", want, "status.replicas", st.Replicas, "pods")
	case st.Replicas > want:
		return short("spec.replicas", want, "status.replicas", st.Replicas, "pods, some too many")
	case st.ReadyReplicas < want:
		return short("spec.replicas", want, "status.readyReplicas", st.ReadyReplicas, "pods ready")
	case st.AvailableReplicas < want:
		return short("spec.replicas", want, "status.availableReplicas", st.AvailableReplicas, "pods available")
	}
	return Health{}
}

func controllerHealth(_ *World, rc *corev1.ReplicationController) Health {
	if h, is := behind(rc.Generation, rc.Status.ObservedGeneration); is {
		return h
	}
	want, st := deref(rc.Spec.Replicas, 1), &rc.Status
	switch {
	case st.Replicas != want:
		return short("spec.replicas", want, "status.replicas", st.Replicas, "pods")
	case st.AvailableReplicas < want:
		return short("spec.replicas", want, "status.availableReplicas", st.AvailableReplicas, "pods available")
	}
	return Health{}
}

func statefulSetHealth(_ *World, s *appsv1.StatefulSet) Health {
	if h, is := behind(s.Generation, s.Status.ObservedGeneration); is {
		return h
	}
	want, st := deref(s.Spec.Replicas, 1), &s.Status
	switch {
	case st.Replicas != want:
		return short("spec.replicas", want, "status.replicas", st.Replicas, "pods")
	case st.ReadyReplicas < want:
		return short("spec.replicas", want, "status.readyReplicas", st.ReadyReplicas, "pods ready")
	case st.AvailableReplicas < want:
		return short("spec.replicas", want, "status.availableReplicas", st.AvailableReplicas, "pods available")
	}
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || st.UpdateRevision == st.CurrentRevision {
		return Health{}
	}
	floor := int32(0)
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
		floor = deref(r.Partition, 0)
	}
	if due := want - floor; st.UpdatedReplicas < due {
		return short("spec.replicas", due, "status.updatedReplicas", st.UpdatedReplicas, "pods of the newest template")
	}
	return Health{}
}

func daemonSetHealth(_ *World, ds *appsv1.DaemonSet) Health {
	if h, is := behind(ds.Generation, ds.Status.ObservedGeneration); is {
		return h
	}
	st := &ds.Status
	want := st.DesiredNumberScheduled
	switch {
	case st.CurrentNumberScheduled < want:
		return short("status.desiredNumberScheduled", want, "status.currentNumberScheduled", st.CurrentNumberScheduled, "pods")
	case ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && st.UpdatedNumberScheduled < want:
		return short("status.desiredNumberScheduled", want, "status.updatedNumberScheduled", st.UpdatedNumberScheduled, "pods of the newest template")
	case st.NumberReady < want:
		return short("status.desiredNumberScheduled", want, "status.numberReady", st.NumberReady, "pods ready")
	case st.NumberAvailable < want:
		return short("status.desiredNumberScheduled", want, "status.numberAvailable", st.NumberAvailable, "pods available")
	}
	return Health{}
}

// jobHealth finds no gap in a job that is at work, nor in one that is suspended: that is what its spec says.
func jobHealth(w *World, j *batchv1.Job) Health {
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobSuspended, batchv1.JobSuccessCriteriaMet:
			return Health{}
		case batchv1.JobFailed:
			return Health{Says: "failed", Want: fmt.Sprintf("spec.completions=%d", deref(j.Spec.Completions, 1)),
				Have: fmt.Sprintf("status.succeeded=%d", j.Status.Succeeded), Since: c.LastTransitionTime.Time}
		}
	}
	if deref(j.Spec.Suspend, false) {
		return Health{}
	}
	want := deref(j.Spec.Completions, deref(j.Spec.Parallelism, 1))
	if j.Status.Active > 0 && j.Status.Failed == 0 && deref(j.Status.Ready, 0) == j.Status.Active {
		return Health{}
	}
	return short("spec.completions", want, "status.succeeded", j.Status.Succeeded, "completions")
}

package causes

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// rollouts are the ways in which workloads do not get their pods.
func rollouts() []converge.Situation {
	return []converge.Situation{
		{Name: "LoopNotRunning", Of: nil, See: loopNotRunning},
		{Name: "Paused", Of: []resource.Kind{kinds.Deployments}, See: paused},
		{Name: "RolloutStuck", Of: []resource.Kind{kinds.Deployments}, See: rolloutStuck},
		{Name: "OldPodsRemain", Of: []resource.Kind{kinds.Deployments}, See: oldPodsRemain},
		{Name: "PodsRejected", Of: []resource.Kind{kinds.ReplicaSets, kinds.ReplicationControllers, kinds.DaemonSets, kinds.StatefulSets},
			See: podsRejected},
		{Name: "PodsNotReady", Of: []resource.Kind{kinds.ReplicaSets, kinds.ReplicationControllers, kinds.DaemonSets}, See: podsNotReady},
		{Name: "OldPodInTheWay", Of: []resource.Kind{kinds.StatefulSets}, See: oldPodInTheWay},
		{Name: "OrderedPodWaits", Of: []resource.Kind{kinds.StatefulSets}, See: orderedPod},
		{Name: "NotOldEnough", Of: []resource.Kind{kinds.Deployments, kinds.ReplicaSets, kinds.StatefulSets, kinds.DaemonSets,
			kinds.ReplicationControllers}, See: notOldEnough},
		{Name: "Working", Of: []resource.Kind{kinds.Deployments, kinds.ReplicaSets, kinds.StatefulSets, kinds.DaemonSets,
			kinds.ReplicationControllers},
			See: working},
	}
}

// loopNotRunning: the loops of this process are known, and the one that keeps the kind is not among them.
func loopNotRunning(l *converge.Look) *converge.Finding {
	if l.Owner == "" {
		return nil
	}
	if runs, sure := l.Runs(l.Owner); runs || !sure {
		return nil
	}
	if gr := l.Kind.Info().GR().String(); gr == "nodes" || gr == "apiservices.apiregistration.k8s.io" ||
		gr == "certificatesigningrequests.certificates.k8s.io" {
		return nil // not its move
	}
	return &converge.Finding{Says: "waits for the loop " + l.Owner + ", which does not run", Owner: l.Owner, State: converge.Missing,
		Waits: converge.ForName("Controller", l.Owner),
		Next:  converge.Does(l.Owner, "closes the gap when it runs"), Advice: []string{"start the loops: kloop controllers"}}
}

func paused(l *converge.Look) *converge.Finding {
	d := l.Obj.(*appsv1.Deployment)
	if !d.Spec.Paused {
		return nil
	}
	return &converge.Finding{Says: "is paused", Owner: converge.Person, State: converge.Blocked,
		Waits:  l.Field("spec.paused"),
		Next:   converge.PersonDoes("resumes it"),
		Advice: []string{"kubectl rollout resume deployment " + d.Name + " -n " + d.Namespace}}
}

// newest is the replica set that has the deployment's template.
func newest(read resource.Reader, d *appsv1.Deployment) *appsv1.ReplicaSet {
	strip := func(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
		t = *t.DeepCopy()
		delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		return t
	}
	want := strip(d.Spec.Template)
	for _, rs := range resource.Owned(read, kinds.ReplicaSets, d) {
		if equality.Semantic.DeepEqual(strip(rs.Spec.Template), want) {
			return rs
		}
	}
	for _, rs := range resource.Owned(read, kinds.ReplicaSets, d) { // fields of a newer server are not among those that are compared
		if r := rs.Annotations[revision]; r != "" && r == d.Annotations[revision] && d.Status.ObservedGeneration >= d.Generation {
			return rs
		}
	}
	return nil
}

func rolloutStuck(l *converge.Look) *converge.Finding {
	d := l.Obj.(*appsv1.Deployment)
	rs := newest(l.Read, d)
	if rs == nil || l.Health(kinds.ReplicaSets, rs).Converged() {
		return nil
	}
	f := &converge.Finding{Says: fmt.Sprintf("waits for replicaset/%s: %d of %d pods are available", rs.Name, rs.Status.AvailableReplicas,
		ptr.Deref(d.Spec.Replicas, 1)), State: converge.Waiting,
		Waits: converge.On("Object", converge.RefTo(kinds.ReplicaSets, rs), "status.availableReplicas"),
		Next:  converge.Does(l.Owner, "goes on when more of its pods are available"),
		Below: []converge.Ref{converge.RefTo(kinds.ReplicaSets, rs)}}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			f.Says += fmt.Sprintf("; it has made no progress for longer than its deadline of %d s",
				ptr.Deref(d.Spec.ProgressDeadlineSeconds, 600))
			f.Error = general.TextOnly(c.Message)
		}
	}
	halfway(l, d, rs, f)
	return f
}

// oldPodsRemain: the new pods are there, and old ones are left that do not go, or may not go yet.
func oldPodsRemain(l *converge.Look) *converge.Finding {
	d := l.Obj.(*appsv1.Deployment)
	var left []converge.Ref
	for _, rs := range resource.Owned(l.Read, kinds.ReplicaSets, d) {
		if rs.Status.Replicas > ptr.Deref(rs.Spec.Replicas, 1) {
			left = append(left, converge.RefTo(kinds.ReplicaSets, rs))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &converge.Finding{Says: "waits for pods of older templates to go", State: converge.Waiting,
		Waits: converge.On("Object", left[0], "status.replicas"),
		Next:  converge.Does(l.Owner, "is done when they are gone"), Below: left}
}

// unwell are the pods of a workload that are not ready, or that stay though they were deleted.
func unwell(l *converge.Look) (list []*corev1.Pod) {
	for _, p := range resource.Owned(l.Read, kinds.Pods, l.Obj) {
		if !l.Health(kinds.Pods, p).Converged() {
			list = append(list, p)
		}
	}
	return list
}

// fresh are those of some pods that are not on their way out; all, if all are.
func fresh(list []*corev1.Pod) []*corev1.Pod {
	stay := slices.DeleteFunc(slices.Clone(list), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(stay) == 0 {
		return list
	}
	return stay
}

func podsNotReady(l *converge.Look) *converge.Finding {
	bad := unwell(l)
	if len(bad) == 0 {
		return nil
	}
	return &converge.Finding{Says: "waits for " + words.Count(len(fresh(bad)), "pod") + " to be ready", State: converge.Waiting,
		Waits: converge.On("Object", converge.RefTo(kinds.Pods, bad[0]), "status.conditions[Ready]"),
		Next:  converge.Does(l.Owner, "is done when its pods are ready"), Below: converge.Refs(kinds.Pods, bad)}
}

// oldPodInTheWay: a pod of an older template does not get ready, and the set replaces it only when it is: the newer template, which
// may well be the correction, never comes to bear.
func oldPodInTheWay(l *converge.Look) *converge.Finding {
	s := l.Obj.(*appsv1.StatefulSet)
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType ||
		s.Status.UpdateRevision == "" {
		return nil
	}
	for _, p := range unwell(l) {
		rev := p.Labels[appsv1.ControllerRevisionHashLabelKey]
		if p.DeletionTimestamp != nil || rev == "" || rev == s.Status.UpdateRevision || ordinal(p.Name) < Kept(s) {
			continue
		}
		return &converge.Finding{Says: "waits for pod/" + p.Name +
			", which has an older template and is not ready: the newer template is held back by it",
			Owner: converge.Person, State: converge.Blocked,
			Waits:  converge.On("Object", converge.RefTo(kinds.Pods, p), "status.conditions[Ready]"),
			Next:   converge.PersonDoes("deletes the pod, so that it is made from the newer template"),
			Advice: []string{"kubectl delete pod " + p.Name + " -n " + p.Namespace, "podManagementPolicy: Parallel does not wait so"}}
	}
	return nil
}

// Kept is the ordinal below which pods keep the older template.
func Kept(s *appsv1.StatefulSet) int {
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return int(ptr.Deref(r.Partition, 0))
	}
	return 0
}

// orderedPod: a stateful set goes on only when the pod before is ready.
func orderedPod(l *converge.Look) *converge.Finding {
	s := l.Obj.(*appsv1.StatefulSet)
	bad := unwell(l)
	if len(bad) == 0 {
		return nil
	}
	slices.SortFunc(bad, func(a, b *corev1.Pod) int { return ordinal(a.Name) - ordinal(b.Name) })
	f := &converge.Finding{Says: "waits for pod/" + bad[0].Name, State: converge.Waiting,
		Waits: converge.On("Object", converge.RefTo(kinds.Pods, bad[0]), "status.conditions[Ready]"),
		Next:  converge.Does(l.Owner, "goes on with the next pod when this one is ready"), Below: converge.Refs(kinds.Pods, bad)}
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		f.Next = converge.Does(l.Owner, "is done when its pods are ready")
	}
	setHalfway(l, s, f)
	return f
}

// ordinal is the number at the end of a stateful set's pod.
func ordinal(name string) (n int) {
	for i, unit := len(name)-1, 1; i >= 0 && name[i] >= '0' && name[i] <= '9'; i, unit = i-1, unit*10 {
		n += int(name[i]-'0') * unit
	}
	return n
}

// notOldEnough: the pods are ready, and have to stay so for a while to count.
func notOldEnough(l *converge.Look) *converge.Finding {
	var least int32
	switch obj := l.Obj.(type) {
	case *appsv1.Deployment:
		least = obj.Spec.MinReadySeconds
	case *appsv1.ReplicaSet:
		least = obj.Spec.MinReadySeconds
	case *appsv1.StatefulSet:
		least = obj.Spec.MinReadySeconds
	case *appsv1.DaemonSet:
		least = obj.Spec.MinReadySeconds
	case *corev1.ReplicationController:
		least = obj.Spec.MinReadySeconds
	}
	if least == 0 {
		return nil
	}
	var next time.Time
	for _, p := range resource.Owned(l.Read, kinds.Pods, l.Obj) {
		c := general.PodCondition(p, corev1.PodReady)
		if c == nil || c.Status != corev1.ConditionTrue {
			continue
		}
		if old := c.LastTransitionTime.Add(time.Duration(least) * time.Second); old.After(l.Now) && (next.IsZero() || old.Before(next)) {
			next = old
		}
	}
	return &converge.Finding{Says: fmt.Sprintf("waits until its pods have been ready for %d s", least), State: converge.Progressing,
		Waits: converge.ForName("Time", "spec.minReadySeconds"), Next: converge.At(next, l.Owner, "counts them as available then")}
}

// working: nothing is in the way; the loop has more to do, or its last writes have to be seen.
func working(l *converge.Look) *converge.Finding {
	if metav1.GetControllerOfNoCopy(l.Obj) == nil && general.Refusal(l) != nil {
		return nil
	}
	if f := leaderGone(l, "kube-controller-manager"); f != nil {
		return f
	}
	for _, p := range resource.Owned(l.Read, kinds.Pods, l.Obj) {
		if at := p.DeletionTimestamp; at != nil && at.After(l.Now.Add(general.SlowStart)) {
			return &converge.Finding{Says: "waits for pod/" + p.Name + " to stop, for which it has time until " +
				at.UTC().Format("15:04:05 MST"), State: converge.Progressing,
				Waits: converge.On("Object", converge.RefTo(kinds.Pods, p), ""), Next: converge.Does(l.Owner, "goes on when it is gone"),
				Advice: []string{"if it need not end in order: kubectl delete pod " + p.Name + " -n " + p.Namespace + " --grace-period=1"}}
		}
	}
	return &converge.Finding{Says: "is being worked on", State: converge.Progressing, Next: converge.Does(l.Owner, "goes on")}
}

// leaderGone tells of a program of the control plane that seems not to run, where only its lease can be seen.
func leaderGone(l *converge.Look, name string) *converge.Finding {
	lease := resource.Get(l.Read, kinds.Leases, metav1.NamespaceSystem, name)
	if l.Loops != nil || lease == nil || lease.Spec.RenewTime == nil {
		return nil
	}
	age := l.Now.Sub(lease.Spec.RenewTime.Time)
	if age < max(converge.LeaseLife(lease), time.Minute) {
		return nil
	}
	return &converge.Finding{Says: "waits for " + name + ", which seems not to run: its lease was renewed last " + words.Ago(age) +
		" ago", Owner: name,
		State: converge.Missing, Waits: converge.On("Object", converge.RefTo(kinds.Leases, lease), "spec.renewTime"),
		Next:   converge.Does(name, "takes it up when it runs"),
		Advice: []string{"see why its pod does not run, and its log: kubectl get pods -n kube-system -l component=" + name}}
}

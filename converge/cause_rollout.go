package converge

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// rollouts are the ways in which workloads do not get their pods.
func rollouts() []Situation {
	return []Situation{
		{"LoopNotRunning", nil, loopNotRunning},
		{"Paused", []resource.Kind{kinds.Deployments}, paused},
		{"RolloutStuck", []resource.Kind{kinds.Deployments}, rolloutStuck},
		{"OldPodsRemain", []resource.Kind{kinds.Deployments}, oldPodsRemain},
		{"PodsRejected", []resource.Kind{kinds.ReplicaSets, kinds.ReplicationControllers, kinds.DaemonSets, kinds.StatefulSets}, podsRejected},
		{"PodsNotReady", []resource.Kind{kinds.ReplicaSets, kinds.ReplicationControllers, kinds.DaemonSets}, podsNotReady},
		{"OldPodInTheWay", []resource.Kind{kinds.StatefulSets}, oldPodInTheWay},
		{"OrderedPodWaits", []resource.Kind{kinds.StatefulSets}, orderedPod},
		{"NotOldEnough", []resource.Kind{kinds.Deployments, kinds.ReplicaSets, kinds.StatefulSets, kinds.DaemonSets,
			kinds.ReplicationControllers}, notOldEnough},
		{"Working", []resource.Kind{kinds.Deployments, kinds.ReplicaSets, kinds.StatefulSets, kinds.DaemonSets, kinds.ReplicationControllers},
			working},
	}
}

// loopNotRunning: the loops of this process are known, and the one that keeps the kind is not among them.
func loopNotRunning(l *look) *Finding {
	if l.owner == "" {
		return nil
	}
	if runs, sure := l.runs(l.owner); runs || !sure {
		return nil
	}
	if gr := l.kind.Info().GR().String(); gr == "nodes" || gr == "apiservices.apiregistration.k8s.io" ||
		gr == "certificatesigningrequests.certificates.k8s.io" {
		return nil // not its move
	}
	return &Finding{Says: "waits for the loop " + l.owner + ", which does not run", Owner: l.owner, State: Missing,
		Waits: forName("Controller", l.owner),
		Next:  does(l.owner, "closes the gap when it runs"), Advice: []string{"start the loops: kloop controllers"}}
}

func paused(l *look) *Finding {
	d := l.obj.(*appsv1.Deployment)
	if !d.Spec.Paused {
		return nil
	}
	return &Finding{Says: "is paused", Owner: person, State: Blocked, Waits: on("Field", refTo(l.kind, d), "spec.paused"),
		Next:   does(person, "resumes it"),
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
	return nil
}

func rolloutStuck(l *look) *Finding {
	d := l.obj.(*appsv1.Deployment)
	rs := newest(l.Read, d)
	if rs == nil || l.Health(kinds.ReplicaSets, rs).Converged() {
		return nil
	}
	f := &Finding{Says: fmt.Sprintf("waits for replicaset/%s: %d of %d pods are available", rs.Name, rs.Status.AvailableReplicas,
		ptr.Deref(d.Spec.Replicas, 1)), State: Waiting,
		Waits: on("Object", refTo(kinds.ReplicaSets, rs), "status.availableReplicas"),
		Next:  does(l.owner, "goes on when more of its pods are available"), Below: []Ref{refTo(kinds.ReplicaSets, rs)}}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			f.Says += fmt.Sprintf("; it has made no progress for longer than its deadline of %d s", ptr.Deref(d.Spec.ProgressDeadlineSeconds, 600))
			f.Error = textOnly(c.Message)
		}
	}
	l.halfway(d, rs, f)
	return f
}

// oldPodsRemain: the new pods are there, and old ones are left that do not go, or may not go yet.
func oldPodsRemain(l *look) *Finding {
	d := l.obj.(*appsv1.Deployment)
	var left []Ref
	for _, rs := range resource.Owned(l.Read, kinds.ReplicaSets, d) {
		if rs.Status.Replicas > ptr.Deref(rs.Spec.Replicas, 1) {
			left = append(left, refTo(kinds.ReplicaSets, rs))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &Finding{Says: "waits for pods of older templates to go", State: Waiting, Waits: on("Object", left[0], "status.replicas"),
		Next: does(l.owner, "is done when they are gone"), Below: left}
}

// unwell are the pods of a workload that are not ready, or that stay though they were deleted.
func (l *look) unwell() (list []*corev1.Pod) {
	for _, p := range resource.Owned(l.Read, kinds.Pods, l.obj) {
		if !l.Health(kinds.Pods, p).Converged() {
			list = append(list, p)
		}
	}
	return list
}

func podsNotReady(l *look) *Finding {
	bad := l.unwell()
	if len(bad) == 0 {
		return nil
	}
	return &Finding{Says: "waits for " + count(len(bad), "pod") + " to be ready", State: Waiting,
		Waits: on("Object", refTo(kinds.Pods, bad[0]), "status.conditions[Ready]"),
		Next:  does(l.owner, "is done when its pods are ready"), Below: refs(kinds.Pods, bad)}
}

// oldPodInTheWay: a pod of an older template does not get ready, and the set replaces it only when it is: the newer template, which
// may well be the correction, never comes to bear.
func oldPodInTheWay(l *look) *Finding {
	s := l.obj.(*appsv1.StatefulSet)
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType ||
		s.Status.UpdateRevision == "" {
		return nil
	}
	for _, p := range l.unwell() {
		rev := p.Labels[appsv1.ControllerRevisionHashLabelKey]
		if p.DeletionTimestamp != nil || rev == "" || rev == s.Status.UpdateRevision || ordinal(p.Name) < kept(s) {
			continue
		}
		return &Finding{Says: "waits for pod/" + p.Name + ", which has an older template and is not ready: the newer template is held back by it",
			Owner: person, State: Blocked,
			Waits:  on("Object", refTo(kinds.Pods, p), "status.conditions[Ready]"),
			Next:   does(person, "deletes the pod, so that it is made from the newer template"),
			Advice: []string{"kubectl delete pod " + p.Name + " -n " + p.Namespace, "podManagementPolicy: Parallel does not wait so"}}
	}
	return nil
}

// kept is the ordinal below which pods keep the older template.
func kept(s *appsv1.StatefulSet) int {
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return int(ptr.Deref(r.Partition, 0))
	}
	return 0
}

// orderedPod: a stateful set goes on only when the pod before is ready.
func orderedPod(l *look) *Finding {
	s := l.obj.(*appsv1.StatefulSet)
	bad := l.unwell()
	if len(bad) == 0 {
		return nil
	}
	slices.SortFunc(bad, func(a, b *corev1.Pod) int { return ordinal(a.Name) - ordinal(b.Name) })
	f := &Finding{Says: "waits for pod/" + bad[0].Name, State: Waiting,
		Waits: on("Object", refTo(kinds.Pods, bad[0]), "status.conditions[Ready]"),
		Next:  does(l.owner, "goes on with the next pod when this one is ready"), Below: refs(kinds.Pods, bad)}
	if s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		f.Next = does(l.owner, "is done when its pods are ready")
	}
	l.setHalfway(s, f)
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
func notOldEnough(l *look) *Finding {
	var least int32
	switch obj := l.obj.(type) {
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
	for _, p := range resource.Owned(l.Read, kinds.Pods, l.obj) {
		c := podCondition(p, corev1.PodReady)
		if c == nil || c.Status != corev1.ConditionTrue {
			continue
		}
		if old := c.LastTransitionTime.Add(time.Duration(least) * time.Second); old.After(l.Now) && (next.IsZero() || old.Before(next)) {
			next = old
		}
	}
	return &Finding{Says: fmt.Sprintf("waits until its pods have been ready for %d s", least), State: Progressing,
		Waits: forName("Time", "spec.minReadySeconds"), Next: at(next, l.owner, "counts them as available then")}
}

// working: nothing is in the way; the loop has more to do, or its last writes have to be seen.
func working(l *look) *Finding {
	if metav1.GetControllerOfNoCopy(l.obj) == nil && l.refusal() != nil {
		return nil
	}
	if f := leaderGone(l, "kube-controller-manager"); f != nil {
		return f
	}
	return &Finding{Says: "is being worked on", State: Progressing, Next: does(l.owner, "goes on")}
}

// leaderGone tells of a program of the control plane that seems not to run, where only its lease can be seen.
func leaderGone(l *look, name string) *Finding {
	lease := resource.Get(l.Read, kinds.Leases, metav1.NamespaceSystem, name)
	if l.Loops != nil || lease == nil || lease.Spec.RenewTime == nil {
		return nil
	}
	age := l.Now.Sub(lease.Spec.RenewTime.Time)
	if age < max(leaseLife(lease), time.Minute) {
		return nil
	}
	return &Finding{Says: "waits for " + name + ", which seems not to run: its lease was renewed last " + ago(age) + " ago", Owner: name,
		State: Missing, Waits: on("Object", refTo(kinds.Leases, lease), "spec.renewTime"),
		Next:   does(name, "takes it up when it runs"),
		Advice: []string{"see why its pod does not run, and its log: kubectl get pods -n kube-system -l component=" + name}}
}

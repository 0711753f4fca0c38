package causes

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// revision is the annotation by which `kubectl rollout undo` finds the version before.
const revision = "deployment.kubernetes.io/revision"

// halfway tells of a rollout that does not get on: whether the version before still serves, which limit holds it, and how to go
// back. It tells nothing of a first rollout.
func halfway(l *converge.Look, d *appsv1.Deployment, now *appsv1.ReplicaSet, f *converge.Finding) {
	var before *appsv1.ReplicaSet
	var serve, all int32
	for _, rs := range resource.Owned(l.Read, kinds.ReplicaSets, d) {
		all += rs.Status.Replicas
		if rs.Name == now.Name || revisionOf(rs) == 0 {
			continue
		}
		serve += rs.Status.AvailableReplicas
		if before == nil || revisionOf(rs) > revisionOf(before) {
			before = rs
		}
	}
	if before == nil || revisionOf(now) <= revisionOf(before) {
		return
	}
	f.Aside = "nothing serves: the version before has no pod left"
	if serve > 0 {
		f.Aside = fmt.Sprintf("%s of the version before %s", words.Count(int(serve), "pod"), ifOne(serve, "still serves", "still serve"))
		if why := heldBy(d, now, serve, all); why != "" {
			f.Aside += ", and " + why
		}
	}
	back := "or go back to the version before"
	if image := otherImage(&now.Spec.Template.Spec, &before.Spec.Template.Spec); image != "" {
		back += ", with the image " + image
	}
	f.Also = []string{back + ": kubectl rollout undo deployment/" + d.Name + " -n " + d.Namespace}
}

// heldBy says which limit of its strategy lets a rollout replace no more pods while those of the new version are not available.
func heldBy(d *appsv1.Deployment, now *appsv1.ReplicaSet, serve, all int32) string {
	r := d.Spec.Strategy.RollingUpdate
	want := ptr.Deref(d.Spec.Replicas, 1)
	if r == nil || ptr.Deref(now.Spec.Replicas, 1) >= want {
		return ""
	}
	surge, _ := intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, int(want), true)
	gone, _ := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, int(want), false)
	if surge == 0 && gone == 0 {
		gone = 1
	}
	if serve+now.Status.AvailableReplicas > want-int32(gone) || all < want+int32(surge) {
		return ""
	}
	return fmt.Sprintf("stay: maxUnavailable %s of %d lets %d go, maxSurge %s lets %d more be made", r.MaxUnavailable.String(), want, gone,
		r.MaxSurge.String(), surge)
}

func ifOne(n int32, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// revisionOf is a replica set's number in its deployment's history; 0: none.
func revisionOf(rs *appsv1.ReplicaSet) int {
	n, _ := strconv.Atoi(rs.Annotations[revision])
	return n
}

// otherImage is the image of the version before, if one container's image is another one now; "" if it is none, or several.
func otherImage(now, before *corev1.PodSpec) (image string) {
	was := map[string]string{}
	for i := range before.Containers {
		was[before.Containers[i].Name] = before.Containers[i].Image
	}
	n := 0
	for i := range now.Containers {
		if old := was[now.Containers[i].Name]; old != "" && old != now.Containers[i].Image {
			image = old
			n++
		}
	}
	if n != 1 {
		return ""
	}
	return image
}

// setHalfway is halfway of a stateful set: its pods of the older template.
func setHalfway(l *converge.Look, s *appsv1.StatefulSet, f *converge.Finding) {
	if s.Status.UpdateRevision == "" || s.Status.UpdateRevision == s.Status.CurrentRevision || s.Status.UpdatedReplicas == 0 {
		return
	}
	serve := int32(0)
	for _, p := range resource.Owned(l.Read, kinds.Pods, s) {
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.Status.UpdateRevision && l.Health(kinds.Pods, p).Converged() {
			serve++
		}
	}
	if f.Aside = "nothing serves: the version before has no pod left"; serve > 0 {
		f.Aside = fmt.Sprintf("%s of the version before %s", words.Count(int(serve), "pod"), ifOne(serve, "still serves", "still serve"))
	}
	f.Also = []string{"or go back to the version before, and then delete the pod that is not ready: kubectl rollout undo " +
		"statefulset/" + s.Name + " -n " + s.Namespace}
}

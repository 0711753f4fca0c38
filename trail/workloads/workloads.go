// Package workloads tells the trail how workloads changed.
package workloads

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/trail"
)

// News says in a few words how a workload changed.
func News(old, now resource.Object) (words []string) {
	say := func(text string) { words = append(words, text) }
	switch b := now.(type) {
	case *appsv1.Deployment:
		a := old.(*appsv1.Deployment)
		say(template(&a.Spec.Template, &b.Spec.Template))
		say(trail.Count("ready", a.Status.ReadyReplicas, b.Status.ReadyReplicas))
	case *appsv1.ReplicaSet:
		say(trail.Count("ready", old.(*appsv1.ReplicaSet).Status.ReadyReplicas, b.Status.ReadyReplicas))
	case *appsv1.StatefulSet:
		a := old.(*appsv1.StatefulSet)
		say(template(&a.Spec.Template, &b.Spec.Template))
		say(trail.Count("ready", a.Status.ReadyReplicas, b.Status.ReadyReplicas))
	case *appsv1.DaemonSet:
		a := old.(*appsv1.DaemonSet)
		say(template(&a.Spec.Template, &b.Spec.Template))
		say(trail.Count("ready", a.Status.NumberReady, b.Status.NumberReady))
	case *batchv1.Job:
		a := old.(*batchv1.Job)
		say(trail.Count("succeeded", a.Status.Succeeded, b.Status.Succeeded))
		say(trail.Count("failed", a.Status.Failed, b.Status.Failed))
	}
	return words
}

func template(a, b *corev1.PodTemplateSpec) string {
	if equality.Semantic.DeepEqual(a, b) {
		return ""
	}
	for i := range b.Spec.Containers {
		if i < len(a.Spec.Containers) && a.Spec.Containers[i].Image != b.Spec.Containers[i].Image {
			return "image " + b.Spec.Containers[i].Image
		}
	}
	return "pod template"
}

package plan

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// podSpecOf returns the pod template of an object, and a function that makes a change of the template a change of the object; nil: it
// has no pods.
func podSpecOf(obj resource.Object) (spec *corev1.PodSpec, wrap func(change fieldTree) fieldTree) {
	in := func(path ...string) func(fieldTree) fieldTree {
		return func(change fieldTree) fieldTree {
			for _, key := range slices.Backward(path) {
				change = fieldTree{key: change}
			}
			return change
		}
	}
	template := in("spec", "template", "spec")
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, in("spec")
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, template
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, template
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec, template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec, template
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			return &o.Spec.Template.Spec, template
		}
	case *batchv1.Job:
		return &o.Spec.Template.Spec, template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec, in("spec", "jobTemplate", "spec", "template", "spec")
	}
	return nil, nil
}

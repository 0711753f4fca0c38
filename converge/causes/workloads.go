package causes

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// Workloads tells the rules that hold for any object what they ask about Kubernetes' own workloads.
func Workloads() converge.Workloads { return workloads{} }

type workloads struct{}

func (workloads) Template(obj resource.Object) *corev1.PodTemplateSpec { return health.TemplateOf(obj) }

func (workloads) Copies(obj resource.Object) (want, ready int32) {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(obj.Spec.Replicas, 1), obj.Status.ReadyReplicas
	case *appsv1.StatefulSet:
		return ptr.Deref(obj.Spec.Replicas, 1), obj.Status.ReadyReplicas
	}
	return 0, 0
}

func (workloads) Short(obj resource.Object) int32 {
	switch obj := obj.(type) {
	case *appsv1.ReplicaSet:
		return ptr.Deref(obj.Spec.Replicas, 1) - obj.Status.Replicas
	case *appsv1.StatefulSet:
		return ptr.Deref(obj.Spec.Replicas, 1) - obj.Status.Replicas
	case *batchv1.Job:
		return ptr.Deref(obj.Spec.Parallelism, 1) - obj.Status.Active
	}
	return 0
}

func (workloads) Makes(obj resource.Object) string {
	switch obj.(type) {
	case *appsv1.ReplicaSet, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job, *corev1.ReplicationController:
		return "pods"
	case *batchv1.CronJob:
		return "a job"
	}
	return ""
}

func (workloads) Failure(l *converge.Look) *convergence.Failure {
	switch obj := l.Obj.(type) {
	case *appsv1.ReplicaSet:
		for _, c := range obj.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return &convergence.Failure{Message: c.Message, First: converge.Stamp(c.LastTransitionTime.Time),
					Last: converge.Stamp(c.LastTransitionTime.Time)}
			}
		}
	case *appsv1.Deployment: // its replica sets say more, where they may be read
		for _, c := range obj.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue &&
				len(resource.Owned(l.Read, kinds.ReplicaSets, obj)) == 0 {
				return general.TextOnly(c.Message)
			}
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		for _, c := range obj.Status.Conditions {
			if c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionFalse && c.Reason == "FailedUpdateScale" {
				return general.TextOnly(c.Message)
			}
		}
	case *appsv1.StatefulSet, *appsv1.DaemonSet, *corev1.ReplicationController, *batchv1.Job, *batchv1.CronJob:
		if e := l.Warning(obj.GetUID(), "FailedCreate"); e != nil {
			return general.EventFailure(e)
		}
	}
	return nil
}

func (workloads) Asleep(w *converge.World, s *corev1.Service) string { return health.Asleep(w, s) }

func (workloads) Held(w *converge.World, obj resource.Object) (told, aside, advice string) {
	switch obj := obj.(type) {
	case *storagev1.VolumeAttachment:
		if obj.Status.DetachError != nil {
			return obj.Status.DetachError.Message, "", ""
		}
	case *corev1.Node:
		if more := LetGo(w, obj); more != "" {
			advice = "have one pod more made, so that one of them may go: " + more
		}
		return "", KeptThere(w, obj), advice
	}
	return "", "", ""
}

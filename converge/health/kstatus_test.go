package health

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// What the documented rules of kstatus (sigs.k8s.io/cli-utils) say of an object.
const (
	current    = "Current"
	inProgress = "InProgress"
	failed     = "Failed"
	leavingNow = "Terminating"
)

// The verdicts on built-in kinds agree with kstatus: what is Current has no gap, all else has one. Where kloop differs on
// purpose, the row says why. The library itself stays out: it would be a module for one table.
func TestKstatusRules(t *testing.T) {
	three, generation := int32(3), int64(2)
	condition := func(typ, status string) []appsv1.DeploymentCondition {
		return []appsv1.DeploymentCondition{{Type: appsv1.DeploymentConditionType(typ), Status: corev1.ConditionStatus(status)}}
	}
	deployment := func(st appsv1.DeploymentStatus) resource.Object {
		st.ObservedGeneration = generation
		return &appsv1.Deployment{ObjectMeta: meta("x"), Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: st}
	}
	set := func(st appsv1.StatefulSetStatus) resource.Object {
		st.ObservedGeneration = generation
		return &appsv1.StatefulSet{ObjectMeta: meta("x"), Spec: appsv1.StatefulSetSpec{Replicas: &three}, Status: st}
	}
	daemons := func(st appsv1.DaemonSetStatus) resource.Object {
		st.ObservedGeneration = generation
		return &appsv1.DaemonSet{ObjectMeta: meta("x"), Status: st}
	}
	pod := func(phase corev1.PodPhase, ready corev1.ConditionStatus) resource.Object {
		return &corev1.Pod{ObjectMeta: meta("x"), Spec: corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	job := func(typ batchv1.JobConditionType) resource.Object {
		return &batchv1.Job{ObjectMeta: meta("x"),
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: typ, Status: corev1.ConditionTrue}}}}
	}
	definition := func(typ apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus) resource.Object {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta("x"),
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: typ,
					Status: status}}}}
	}
	gone := pod(corev1.PodRunning, corev1.ConditionTrue)
	at := meta("x").CreationTimestamp
	gone.SetDeletionTimestamp(&at)
	for name, tt := range map[string]struct {
		kind   resource.Kind
		obj    resource.Object
		says   string // kstatus
		differ string // why kloop says otherwise; "": it agrees
	}{
		"deployment, all available": {kinds.Deployments, deployment(appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3,
			ReadyReplicas: 3, AvailableReplicas: 3, Conditions: condition("Available", "True")}), current, ""},
		"deployment, old pods left": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}), inProgress, ""},
		"deployment, few updated": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, ReadyReplicas: 3, AvailableReplicas: 3}), inProgress, ""},
		"deployment, few available": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 2}), inProgress, ""},
		"deployment, deadline exceeded": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 2, Conditions: condition("Progressing", "False")}), failed,
			""},
		"deployment, not observed": {kinds.Deployments, &appsv1.Deployment{ObjectMeta: meta("x"),
			Status: appsv1.DeploymentStatus{ObservedGeneration: 1}}, inProgress, ""},
		"stateful set, all ready": {kinds.StatefulSets,
			set(appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, CurrentReplicas: 3, UpdatedReplicas: 3}),
			current, ""},
		"stateful set, few ready": {kinds.StatefulSets, set(appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 2}), inProgress, ""},
		"stateful set, revision behind": {kinds.StatefulSets, set(appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3,
			AvailableReplicas: 3, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "b"}), inProgress, ""},
		"daemon set, all available": {kinds.DaemonSets, daemons(appsv1.DaemonSetStatus{DesiredNumberScheduled: 2,
			CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2, NumberReady: 2}), current, ""},
		"daemon set, few scheduled": {kinds.DaemonSets,
			daemons(appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: 1}), inProgress, ""},
		"daemon set, few updated": {kinds.DaemonSets, daemons(appsv1.DaemonSetStatus{DesiredNumberScheduled: 2,
			CurrentNumberScheduled: 2, UpdatedNumberScheduled: 1, NumberAvailable: 2, NumberReady: 2}), inProgress, ""},
		"pod, ready":                 {kinds.Pods, pod(corev1.PodRunning, corev1.ConditionTrue), current, ""},
		"pod, running and not ready": {kinds.Pods, pod(corev1.PodRunning, corev1.ConditionFalse), inProgress, ""},
		"pod, succeeded":             {kinds.Pods, pod(corev1.PodSucceeded, corev1.ConditionFalse), current, ""},
		"pod, failed":                {kinds.Pods, pod(corev1.PodFailed, corev1.ConditionFalse), failed, ""},
		"pod, being deleted":         {kinds.Pods, gone, leavingNow, ""},
		"job, complete":              {kinds.Jobs, job(batchv1.JobComplete), current, ""},
		"job, failed":                {kinds.Jobs, job(batchv1.JobFailed), failed, ""},
		"job, suspended":             {kinds.Jobs, job(batchv1.JobSuspended), inProgress, "that is what its spec says"},
		"job, at work": {kinds.Jobs, &batchv1.Job{ObjectMeta: meta("x"),
			Status: batchv1.JobStatus{Active: 1, Ready: new(int32(1))}}, current, ""},
		"claim, bound": {kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: meta("x"),
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}, current, ""},
		"claim, pending": {kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: meta("x"),
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}, inProgress, ""},
		"budget": {kinds.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{ObjectMeta: meta("x")}, current, ""},
		"load balancer without address": {kinds.Services, &corev1.Service{ObjectMeta: meta("x"),
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}, inProgress, ""},
		"service": {kinds.Services, &corev1.Service{ObjectMeta: meta("x"),
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}, current, ""},
		"service of nothing": {kinds.Services, &corev1.Service{ObjectMeta: meta("x")}, current,
			"a service that leads nowhere is stuck"},
		"service without endpoints": {kinds.Services, &corev1.Service{ObjectMeta: meta("x"),
			Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}}, current, "a service that leads nowhere is stuck"},
		"definition, established": {kinds.CustomResourceDefinitions,
			definition(apiextensionsv1.Established, apiextensionsv1.ConditionTrue), current, ""},
		"definition, names refused": {kinds.CustomResourceDefinitions,
			definition(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse), failed, ""},
		"definition, new": {kinds.CustomResourceDefinitions,
			definition(apiextensionsv1.Established, apiextensionsv1.ConditionFalse), inProgress, ""},
		"config map": {kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: meta("x")}, current, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := empty().Health(tt.kind, tt.obj)
			if agrees := h.Converged() == (tt.says == current); agrees != (tt.differ == "") {
				t.Errorf("%s: kstatus says %s; kloop says %q", name, tt.says, h.Says)
			}
		})
	}
}

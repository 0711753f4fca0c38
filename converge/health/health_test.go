package health

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

var noon = states.Noon

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Generation: 2}
}

func cond(typ, status string) map[string]any { return map[string]any{"type": typ, "status": status} }

// empty is a world without objects.
func empty() *converge.World {
	set := kinds.NewSet()
	return &converge.World{Read: view.New(set).Snapshot(), Kinds: set, Now: noon, Rules: own()}
}

// own are the rules of this package alone.
func own() converge.Rules { return converge.Rules{Healths: All(), Custom: general.Custom} }

func TestHealth(t *testing.T) {
	three := int32(3)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	deployment := func(st appsv1.DeploymentStatus) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: st}
	}
	pod := func(phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: phase}}
		if ready != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		}
		return p
	}
	deleted := pod(corev1.PodRunning, corev1.ConditionTrue)
	deleted.DeletionTimestamp = at(-time.Minute)
	stopping := pod(corev1.PodRunning, corev1.ConditionTrue)
	stopping.DeletionTimestamp = at(20 * time.Second)
	owned := pod(corev1.PodFailed, "")
	owned.OwnerReferences = []metav1.OwnerReference{{Controller: new(true), Kind: "Job"}}
	for name, tt := range map[string]struct {
		kind resource.Kind
		obj  resource.Object
		want string
	}{
		"deployment not looked at": {kinds.Deployments, deployment(appsv1.DeploymentStatus{ObservedGeneration: 1}),
			"has a spec that its controller has not looked at yet"},
		"deployment lacks new pods": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3}),
			"has 1 of 3 replicas of the newest template"},
		"deployment not available": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}),
			"has 2 of 3 replicas available"},
		"deployment has old pods": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 3}),
			"still has 1 replica of older templates"},
		"deployment complete": {kinds.Deployments,
			deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), ""},
		"pod ready":              {kinds.Pods, pod(corev1.PodRunning, corev1.ConditionTrue), ""},
		"pod not ready":          {kinds.Pods, pod(corev1.PodRunning, corev1.ConditionFalse), "runs and is not ready"},
		"pod through":            {kinds.Pods, pod(corev1.PodSucceeded, ""), ""},
		"pod failed alone":       {kinds.Pods, pod(corev1.PodFailed, ""), "failed"},
		"pod failed under a job": {kinds.Pods, owned, ""},
		"pod stops in its time":  {kinds.Pods, stopping, ""},
		"pod does not stop":      {kinds.Pods, deleted, "was deleted and is still there"},
		"job at work": {kinds.Jobs, &batchv1.Job{ObjectMeta: meta("j"), Status: batchv1.JobStatus{Active: 1, Ready: new(int32(1))}},
			""},
		"job suspended": {kinds.Jobs, &batchv1.Job{ObjectMeta: meta("j"), Spec: batchv1.JobSpec{Suspend: new(true)}}, ""},
		"job fails": {kinds.Jobs,
			&batchv1.Job{ObjectMeta: meta("j"),
				Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}},
			"failed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := empty().Health(tt.kind, tt.obj).Says; got != tt.want {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		})
	}
}

// Any resource is judged by generation and conditions, as kstatus does.
func TestCustomHealth(t *testing.T) {
	widgets := &resource.Def[*corev1.ConfigMap]{GVK: schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Widget"},
		Plural:     "widgets",
		Namespaced: true}
	for name, tt := range map[string]struct {
		status map[string]any
		want   string
	}{
		"no status":      {nil, ""},
		"current":        {map[string]any{"observedGeneration": int64(2), "conditions": []any{cond("Ready", "True")}}, ""},
		"behind":         {map[string]any{"observedGeneration": int64(1)}, "has a spec that its controller has not looked at yet"},
		"not ready":      {map[string]any{"conditions": []any{cond("Ready", "False")}}, "is not ready"},
		"unknown":        {map[string]any{"conditions": []any{cond("Ready", "Unknown")}}, "is not known to be ready"},
		"stalled":        {map[string]any{"conditions": []any{cond("Ready", "False"), cond("Stalled", "True")}}, "is stalled"},
		"reconciling":    {map[string]any{"conditions": []any{cond("Reconciling", "True")}}, "is being worked on"},
		"odd conditions": {map[string]any{"conditions": "none", "observedGeneration": "2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "w", "generation": int64(2)}}}
			if tt.status != nil {
				obj.Object["status"] = tt.status
			}
			if got := empty().Health(widgets, obj).Says; got != tt.want {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		})
	}
}

// TestLostSince: what loses a pod long after its last change is not what it should be since then; a rollout since its template came.
func TestLostSince(t *testing.T) {
	made, lost := time.Unix(1000, 0), time.Unix(5000, 0)
	fields := []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &metav1.Time{Time: made}},
		{Manager: "kube-controller-manager", Subresource: "status", Time: &metav1.Time{Time: lost}}}
	set := func(update string) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))},
			Status: appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 2, CurrentRevision: "a", UpdateRevision: update}}
		s.ManagedFields = fields
		return s
	}
	daemons := &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: 2,
		UpdatedNumberScheduled: 2, NumberReady: 1}}
	daemons.ManagedFields = fields
	copies := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2))}, Status: appsv1.ReplicaSetStatus{Replicas: 1}}
	copies.ManagedFields = fields
	w := empty()
	for _, tt := range []struct {
		name string
		kind resource.Kind
		obj  resource.Object
		want time.Time
	}{
		{"a set of one revision", kinds.StatefulSets, set("a"), lost},
		{"a set that rolls", kinds.StatefulSets, set("b"), made},
		{"daemons", kinds.DaemonSets, daemons, lost},
		{"copies", kinds.ReplicaSets, copies, lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if h := w.Health(tt.kind, tt.obj); h.Converged() || !h.Since.Equal(tt.want) {
				t.Errorf("%q since %v", h.Says, h.Since)
			}
		})
	}
}

package controllers_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Whatever controls pods releases one that no longer matches, takes it back when it does, and leaves those of others alone. Jobs
// have a test of their own, for the finalizer.
func TestOwnership(t *testing.T) {
	l := map[string]string{"app": "o"}
	selector := &metav1.LabelSelector{MatchLabels: l}
	for _, tt := range []struct {
		kind resource.Kind
		make func(c *cluster) resource.Object
	}{
		{kinds.ReplicaSets, func(c *cluster) resource.Object {
			return make1(c, kinds.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: meta("o"),
				Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template(l)}})
		}},
		{kinds.ReplicationControllers, func(c *cluster) resource.Object {
			tmpl := template(l)
			return make1(c, kinds.ReplicationControllers, &corev1.ReplicationController{ObjectMeta: meta("o"),
				Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(1)), Selector: l, Template: &tmpl}})
		}},
		{kinds.StatefulSets, func(c *cluster) resource.Object {
			return make1(c, kinds.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta("o"),
				Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template(l)}})
		}},
		{kinds.DaemonSets, func(c *cluster) resource.Object {
			return make1(c, kinds.DaemonSets, &appsv1.DaemonSet{ObjectMeta: meta("o"),
				Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template(l)}})
		}},
	} {
		t.Run(tt.kind.Info().Plural, func(t *testing.T) { simulate(t, 1, func(c *cluster) { owned(c, tt.make(c), l) }) })
	}
}

// owned takes the only pod of an owner through the rule.
func owned(c *cluster, owner resource.Object, l map[string]string) {
	c.t.Helper()
	foreign := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Other", Name: "x", UID: "x", Controller: new(true)}
	make1(c, kinds.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign", Labels: l,
		OwnerReferences: []metav1.OwnerReference{foreign}}, Spec: template(l).Spec})
	var first *corev1.Pod
	c.until("its pod runs", func(r resource.Reader) bool {
		list := resource.Owned(r, kinds.Pods, owner)
		if len(list) != 1 || list[0].Status.Phase != corev1.PodRunning {
			return false
		}
		first = list[0]
		return true
	})
	now := func(r resource.Reader) *corev1.Pod { return resource.Get(r, kinds.Pods, "default", first.Name) }
	edit(c, kinds.Pods, "default", first.Name, "", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "else"} })
	c.until("the pod is released", func(r resource.Reader) bool { return now(r) != nil && len(now(r).OwnerReferences) == 0 })
	edit(c, kinds.Pods, "default", first.Name, "", func(p *corev1.Pod) { p.Labels = first.Labels })
	c.until("one pod is its own again, and the other gone", func(r resource.Reader) bool {
		list := resource.Owned(r, kinds.Pods, owner)
		return len(list) == 1 && (now(r) == nil || list[0].UID == first.UID)
	})
	p := resource.Get(c.Read(), kinds.Pods, "default", "foreign")
	if p == nil || len(p.OwnerReferences) != 1 || p.OwnerReferences[0].UID != "x" {
		c.t.Errorf("another one's pod became %+v", p)
	}
}

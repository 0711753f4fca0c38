package resourceclaim

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func user(name string) resourcev1.ResourceClaimConsumerReference {
	return resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)}
}

func TestUse(t *testing.T) {
	pods := map[string]*corev1.Pod{}
	for name, phase := range map[string]corev1.PodPhase{"runs": corev1.PodRunning, "pends": corev1.PodPending, "ended": corev1.PodSucceeded} {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{Phase: phase}}
	}
	pods["namesake"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "namesake", UID: "other"}}
	foreign := resourcev1.ResourceClaimConsumerReference{APIGroup: "example.com", Resource: "jobs", Name: "j"}
	for _, tt := range []struct {
		name      string
		users     []resourcev1.ResourceClaimConsumerReference
		allocated bool
		going     bool
		waiting   []string
		want      string // users, free, same
	}{
		{"nobody", nil, false, false, nil, "0 false true"},
		{"allocated ahead", nil, true, false, nil, "0 false true"},
		{"in use", []resourcev1.ResourceClaimConsumerReference{user("runs"), user("pends")}, true, false, nil, "2 false true"},
		{"one has ended", []resourcev1.ResourceClaimConsumerReference{user("runs"), user("ended")}, true, false, nil, "1 false false"},
		{"the last has ended", []resourcev1.ResourceClaimConsumerReference{user("ended")}, true, false, nil, "0 true false"},
		{"the last is gone", []resourcev1.ResourceClaimConsumerReference{user("gone")}, true, false, nil, "0 true false"},
		{"a namesake is somebody else", []resourcev1.ResourceClaimConsumerReference{user("namesake")}, true, false, nil, "0 true false"},
		{"not a pod", []resourcev1.ResourceClaimConsumerReference{foreign}, true, false, nil, "1 false true"},
		{"being deleted, in use", []resourcev1.ResourceClaimConsumerReference{user("runs")}, true, true, nil, "1 false true"},
		{"being deleted, free", nil, true, true, nil, "0 true false"},
		{"given a node by another", nil, true, false, []string{"runs"}, "1 false false"},
	} {
		c := &resourcev1.ResourceClaim{}
		c.Status.ReservedFor = tt.users
		if tt.allocated {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		if tt.going {
			c.DeletionTimestamp = &metav1.Time{}
		}
		var waiting []*corev1.Pod
		for _, name := range tt.waiting {
			waiting = append(waiting, pods[name])
		}
		got := use(c, func(name string) *corev1.Pod { return pods[name] }, waiting)
		if text := fmt.Sprint(len(got.users), got.free, got.same); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
}

func TestPlan(t *testing.T) {
	gpu, name := "gpu-template", "own"
	p := &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
		{Name: "a", ResourceClaimTemplateName: &gpu}, {Name: "b", ResourceClaimName: &name}, {Name: "c", ResourceClaimTemplateName: &gpu}}}}
	if got := plan(p, map[string]string{"a": "p-a-xyz"}); len(got) != 1 || got[0].Name != "c" {
		t.Errorf("missing: %v", got)
	}
}

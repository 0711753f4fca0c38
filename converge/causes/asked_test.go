package causes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods share what they ask for if one template has made them. An operator may give each pod nodes of its own.
func TestAsking(t *testing.T) {
	pod := func(api, kind, hash string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}}
		p.Labels = map[string]string{"controller-revision-hash": hash}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: kind, UID: "u", Controller: new(true)}}
		return p
	}
	for _, tt := range []struct {
		name   string
		a, b   *corev1.Pod
		shared bool
	}{
		{"of one ReplicaSet", pod("apps/v1", "ReplicaSet", ""), pod("apps/v1", "ReplicaSet", ""), true},
		{"of one revision of a StatefulSet", pod("apps/v1", "StatefulSet", "a"), pod("apps/v1", "StatefulSet", "a"), true},
		{"of two revisions", pod("apps/v1", "StatefulSet", "a"), pod("apps/v1", "StatefulSet", "b"), false},
		{"of an operator", pod("core.strimzi.io/v1", "StrimziPodSet", ""), pod("core.strimzi.io/v1", "StrimziPodSet", ""), false},
		{"of a DaemonSet", pod("apps/v1", "DaemonSet", "a"), pod("apps/v1", "DaemonSet", "a"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a, b := asking(tt.a), asking(tt.b); (a != "" && a == b) != tt.shared {
				t.Errorf("%q and %q", a, b)
			}
		})
	}
	if a := asking(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}}); a != "of a=b" {
		t.Errorf("by labels: %q", a)
	}
}

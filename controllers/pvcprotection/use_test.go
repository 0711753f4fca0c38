package pvcprotection

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/core"
)

// TestUse judges a claim by one pod.
func TestUse(t *testing.T) {
	zero, claim := int64(0), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-v"}}
	controller := true
	owned := claim.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "u", Controller: &controller}}
	byName := corev1.Volume{Name: "x", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p-v"}}}
	ephemeral := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	onNode := func(p *corev1.Pod) { p.Spec.NodeName = "n" }
	ended := func(p *corev1.Pod) { onNode(p); p.Status.Phase = corev1.PodSucceeded }
	stopped := func(p *corev1.Pod) {
		onNode(p)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{}, &zero
	}
	for _, tt := range []struct {
		name        string
		claim       *corev1.PersistentVolumeClaim
		volume      corev1.Volume
		edit        func(*corev1.Pod)
		used, holds bool
	}{
		{"runs", claim, byName, onNode, true, true},
		{"has no node", claim, byName, func(*corev1.Pod) {}, true, false},
		{"ended and is there", claim, byName, ended, false, true},
		{"shut down", claim, byName, stopped, true, true},
		{"another claim", claim, corev1.Volume{Name: "x"}, onNode, false, false},
		{"its own", owned, ephemeral, onNode, true, true},
		{"its own, ended", owned, ephemeral, ended, false, true},
		{"its own, shut down", owned, ephemeral, stopped, true, false},
		{"somebody else's of that name", claim, ephemeral, onNode, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
				Spec: corev1.PodSpec{Volumes: []corev1.Volume{tt.volume}}}
			tt.edit(p)
			list := users([]*corev1.Pod{p}, tt.claim)
			used, held := len(list) > 0 && !core.Terminal(p), len(list) > 0 && holds(p, tt.claim)
			if used != tt.used || held != tt.holds {
				t.Errorf("%s: used %t, held %t", tt.name, used, held)
			}
		})
	}
}

// TestJudged keeps the time at which a claim's use changed.
func TestJudged(t *testing.T) {
	at := func(s int64) metav1.Time { return metav1.Time{Time: time.Unix(s, 0)} }
	claim := judged(&corev1.PersistentVolumeClaim{}, false, at(1))
	if claim == nil || len(claim.Status.Conditions) != 1 || claim.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Fatalf("new and unused: %+v", claim)
	}
	if judged(claim, false, at(2)) != nil {
		t.Error("nothing changed, and it is written")
	}
	claim = judged(claim, true, at(3))
	if c := claim.Status.Conditions; len(c) != 1 || c[0].Status != corev1.ConditionFalse ||
		c[0].LastTransitionTime.Unix() != 3 || c[0].Reason != "PodUsingPVC" {
		t.Errorf("used: %+v", c)
	}
}

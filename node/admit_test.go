package node

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAdmit(t *testing.T) {
	node := quantities("cpu", "2", "memory", "1Gi", "pods", "3", "example.com/fpga", "1")
	made := 0
	let := func(p *corev1.Pod) bool { return p.Status.StartTime != nil }
	pod := func(started bool, phase corev1.PodPhase, pairs ...string) *corev1.Pod {
		p := testPod(never, "", "a")
		made++
		p.UID, p.Status.Phase = types.UID(fmt.Sprint(made)), phase
		p.Spec.Containers[0].Resources.Requests = quantities(pairs...)
		if started {
			p.Status.StartTime = &metav1.Time{Time: noon}
		}
		return p
	}
	runs := pod(true, corev1.PodRunning, "cpu", "1500m", "memory", "512Mi")
	over := pod(true, corev1.PodSucceeded, "cpu", "2")
	other := pod(false, corev1.PodPending, "cpu", "2")
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		node []*corev1.Pod
		want string
	}{
		{"fits", pod(false, "", "cpu", "500m"), []*corev1.Pod{runs, over, other}, ""},
		{"cpu", pod(false, "", "cpu", "501m"), []*corev1.Pod{runs}, "OutOfcpu"},
		{"memory", pod(false, "", "memory", "513Mi"), []*corev1.Pod{runs}, "OutOfmemory"},
		{"of the cluster", pod(false, "", "example.com/gpu", "1"), nil, ""},
		{"a device class", pod(false, "", "deviceclass.resource.kubernetes.io/gpu", "1"), nil, ""},
		{"devices", pod(false, "", "example.com/fpga", "2"), nil, "OutOfexample.com/fpga"},
		{"asks for nothing", pod(false, ""), []*corev1.Pod{runs}, ""},
		{"pods", pod(false, ""), []*corev1.Pod{runs, pod(true, ""), pod(true, "")}, "OutOfpods"},
		{"let in before", pod(true, "", "cpu", "100"), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if r := Admit(c.pod, c.node, node, let); r != nil {
				got = r.Reason
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		})
	}
	r := Admit(pod(false, "", "cpu", "3"), []*corev1.Pod{runs}, node, let)
	if want := "Node didn't have enough resource: cpu, requested: 3000, used: 1500, capacity: 2000"; r.Message != want {
		t.Errorf("%q, want %q", r.Message, want)
	}
}

package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

func TestHostPorts(t *testing.T) {
	with := func(always bool, port int32) corev1.Container {
		c := corev1.Container{Ports: []corev1.ContainerPort{{ContainerPort: 1}, {HostPort: port}}}
		if always {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		return c
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{with(false, 80), with(true, 81)}, Containers: []corev1.Container{with(false, 82)}}}
	if got := podspec.HostPorts(p); len(got) != 2 || got[0].HostPort != 81 || got[1].HostPort != 82 {
		t.Errorf("%v, want those of the sidecar and of the main container", got)
	}
}

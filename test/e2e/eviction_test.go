//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// short says whether the second node has a condition of pressure, and the taint that follows from it, both or neither.
func short(t *testing.T, condition corev1.NodeConditionType, taint string, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is %t", condition, want), func() (bool, string) {
		n, err := it.client.CoreV1().Nodes().Get(context.Background(), nodes[1].name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		is := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == condition && c.Status == corev1.ConditionTrue
		})
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == taint && t.Effect == corev1.TaintEffectNoSchedule
		})
		return is == want && tainted == want, fmt.Sprintf("%+v, %+v", n.Status.Conditions, n.Spec.Taints)
	})
}

// evicted waits until a pod had to go, and compares the reason.
func evicted(t *testing.T, ns, name, message string) {
	t.Helper()
	p := reaches(t, ns, name, corev1.PodFailed)
	if p.Status.Reason != "Evicted" || !regexp.MustCompile("^"+message).MatchString(p.Status.Message) {
		t.Errorf("%s failed for %s: %q, want %q", name, p.Status.Reason, p.Status.Message, message)
	}
	if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonTerminationByKubelet
	}) {
		t.Errorf("%s: no word of a disruption: %+v", name, p.Status.Conditions)
	}
}

// TestEviction has the second node's disk filled by a pod, which so has to go, while its neighbour stays; then the node shall keep more
// memory free than it has, and the pod goes that asked for none, while no other like it is let in.
func TestEviction(t *testing.T) {
	join(t)
	ns := space(t)
	small := filepath.Join(it.dir, nodes[1].name, "small")
	if err := sh("mkdir -p %[1]s && mount -t tmpfs -o size=64m kloop-e2e %[1]s", small); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		t.Helper()
		if err := end(it.agent, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		it.agent = nil
	}
	start := func(args ...string) {
		t.Helper()
		if err := it.startAgent(args...); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	t.Cleanup(func() {
		kubectl(t, "delete", "pod", "-n", ns, "--all")
		stop()
		if err := sh("umount -R -l %s && rm %s", small, filepath.Join(it.dir, nodes[1].name, "node")); err != nil { // a link by now
			t.Error(err)
		}
		start()
		short(t, corev1.NodeMemoryPressure, corev1.TaintNodeMemoryPressure, false)
	})
	start("--root-dir", small, "--eviction-hard", "nodefs.available<40Mi", "--eviction-pressure-transition-period", "1s")
	on, volume := "nodeName: "+nodes[1].name+"\nvolumes: [{name: v, emptyDir: {}}]", "volumeMounts: [{name: v, mountPath: /v}]\n"
	apply(t, ns, onePod("neighbour", "sleep 3600", on, volume+"resources: {requests: {memory: 16Mi}}")+
		onePod("plain", "sleep 3600", on, volume))
	kubectl(t, "wait", "-n", ns, "pod/neighbour", "pod/plain", "--for=condition=Ready", "--timeout=240s")
	apply(t, ns, onePod("glutton", "head -c 30m /dev/zero > /v/fill && sleep 3600", on, volume))
	evicted(t, ns, "glutton", "The node was low on resource: ephemeral-storage. Threshold quantity: 40Mi, available: 3[0-9]{4}Ki. ")
	short(t, corev1.NodeDiskPressure, corev1.TaintNodeDiskPressure, false) // what it wrote is gone
	for _, name := range []string{"neighbour", "plain"} {
		if p := getPod(t, ns, name); p.Status.Phase != corev1.PodRunning {
			t.Errorf("%s did not stay: %+v", name, p.Status)
		}
	}

	stop()
	start("--root-dir", small, "--eviction-hard", "memory.available<1Pi")
	evicted(t, ns, "plain", "The node was low on resource: memory. Threshold quantity: 1Pi, available: [0-9]+Ki. "+
		"Container c was using [0-9]+(Ki)?, request is 0, has larger consumption of memory. $")
	short(t, corev1.NodeMemoryPressure, corev1.TaintNodeMemoryPressure, true)
	apply(t, ns, onePod("late", "sleep 3600", "nodeName: "+nodes[1].name, ""))
	if p := reaches(t, ns, "late", corev1.PodFailed); p.Status.Reason != "Evicted" ||
		p.Status.Message != "Pod was rejected: The node had condition: [MemoryPressure]. " {
		t.Errorf("a pod that asks for no memory is let in, or told %s: %q", p.Status.Reason, p.Status.Message)
	}
}

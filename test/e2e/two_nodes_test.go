//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// join makes the second node part of the cluster, unless it is.
func join(t *testing.T) {
	t.Helper()
	if it.agent != nil {
		return
	}
	if err := it.startAgent(); err != nil {
		t.Fatal(err)
	}
	for _, tar := range []string{"nginx.tar", "nginx2.tar"} {
		if err := it.load(1, tar); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "node two is ready", func() (bool, string) { return nodeReady(nodes[1].name), "not ready" })
}

// TestTwoNodes adds a second node, spreads pods over both, reaches one from the other, and loses it.
func TestTwoNodes(t *testing.T) {
	join(t)
	ns := space(t)
	apply(t, ns, clientPod+"  nodeName: "+nodes[1].name+"\n") // it outlives the agent
	kubectl(t, "wait", "-n", ns, "pod/client", "--for=condition=Ready", "--timeout=240s")
	spread := "      topologySpreadConstraints:\n      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, " +
		"whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}\n"
	apply(t, ns, web("web", 4, spread))
	rolledOut(t, ns, "web")
	where := map[string]int{}
	for _, p := range pods(t, ns, "web") {
		where[p.Spec.NodeName]++
	}
	if len(where) != 2 {
		t.Fatalf("the pods are on %v; want both nodes", where)
	}
	met := map[string]bool{}
	eventually(t, "the service leads to pods on both nodes", func() (bool, string) {
		out, err := fetch(ns, "client", "web")
		if err == nil {
			met[strings.TrimSpace(out)] = true
		}
		onTwo := 0
		for _, p := range pods(t, ns, "web") {
			if met[p.Name] && p.Spec.NodeName == nodes[1].name {
				onTwo++
			}
		}
		return onTwo > 0 && len(met) > 1, fmt.Sprint(met, err)
	})

	lost := time.Now()
	if err := end(it.agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	it.agent = nil
	eventually(t, "node two is not ready", func() (bool, string) { return !nodeReady(nodes[1].name), "still ready" })
	t.Logf("the node was known to be lost after %v", time.Since(lost).Round(100*time.Millisecond))
	eventually(t, "the pods of node two are replaced on node one", func() (bool, string) {
		n := 0
		for _, p := range pods(t, ns, "web") {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.Spec.NodeName == nodes[0].name {
					n++
				}
			}
		}
		return n == 4, fmt.Sprintf("%d ready on node one", n)
	})
	t.Logf("its pods were replaced after %v", time.Since(lost).Round(100*time.Millisecond))

	// The node comes back and gets rid of what was replaced. Its proxy, which was killed with it, leads to what there is now.
	if err := it.startAgent(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node two is ready again", func() (bool, string) { return nodeReady(nodes[1].name), "not ready" })
	eventually(t, "no pod is left in the middle of its end", func() (bool, string) {
		list, err := it.client.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, err.Error()
		}
		return len(list.Items) == 4, fmt.Sprintf("%d pods", len(list.Items))
	})
	clear(met)
	eventually(t, "the service leads from node two to all pods", func() (bool, string) {
		out, err := fetch(ns, "client", "web")
		if err == nil {
			met[strings.TrimSpace(out)] = true
		}
		return len(met) == 4, fmt.Sprint(met, err)
	})
}

// nodeReady says whether a node is ready and takes pods.
func nodeReady(name string) bool {
	n, err := it.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0
		}
	}
	return false
}

//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNetworkPolicy isolates pods on both nodes, lets a friend in, and follows the friend's labels. Probes go on working all the while.
func TestNetworkPolicy(t *testing.T) {
	join(t)
	ns := space(t)
	apply(t, ns, `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{podSelector: {matchLabels: {role: friend}}}]
    ports: [{port: http}]
`)
	startClient(t, ns)
	apply(t, ns, web("web", 2, spreadOver("web")))
	rolledOut(t, ns, "web") // its readiness probes come from the nodes
	list := pods(t, ns, "web")
	if slices.ContainsFunc(list, func(p corev1.Pod) bool { return p.Spec.NodeName == nodes[0].name }) &&
		slices.ContainsFunc(list, func(p corev1.Pod) bool { return p.Spec.NodeName == nodes[1].name }) {
		t.Log("pods on both nodes")
	} else {
		t.Fatal("the pods are not on both nodes")
	}
	reaches := func(p *corev1.Pod) (bool, string) {
		url := "http://" + host(p.Status.PodIP) + "/hostname"
		out, err := it.try("exec", "-n", ns, "client", "--", "timeout", "3", "wget", "-q", "-O", "-", url)
		return err == nil && strings.TrimSpace(out) == p.Name, fmt.Sprint(out, err)
	}
	none := func(when string) {
		t.Helper()
		for i := range list {
			if yes, out := reaches(&list[i]); yes {
				t.Errorf("%s: %s on %s is reached: %s", when, list[i].Name, list[i].Spec.NodeName, out)
			}
		}
	}
	all := func(when string) {
		t.Helper()
		for i := range list {
			eventually(t, when+": "+list[i].Name+" is reached", func() (bool, string) { return reaches(&list[i]) })
		}
	}
	none("a stranger")
	kubectl(t, "label", "-n", ns, "pod/client", "role=friend")
	all("a friend")
	text, err := exec.Command(filepath.Join(it.bin, "kloop"), "why", "--kubeconfig", it.kubeconfig, "-n", ns, "--to",
		"pod/"+list[0].Name+":80",
		"pod/client").CombinedOutput()
	out := string(text)
	if err != nil || !strings.Contains(out, "may reach pod/"+list[0].Name) ||
		!strings.Contains(out, "NetworkPolicy "+ns+"/friends allows it") {
		t.Errorf("kloop why --to: %v\n%s", err, out)
	}
	kubectl(t, "label", "-n", ns, "pod/client", "role-")
	eventually(t, "a friend no more", func() (bool, string) {
		for i := range list {
			if yes, out := reaches(&list[i]); yes {
				return false, out
			}
		}
		return true, ""
	})
	kubectl(t, "delete", "-n", ns, "networkpolicy/friends")
	all("without a policy")
}

// spreadOver spreads the pods of an app over the nodes.
func spreadOver(app string) string {
	return "      topologySpreadConstraints:\n      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, " +
		"labelSelector: {matchLabels: {app: " + app + "}}}\n"
}

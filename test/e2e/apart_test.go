//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apart has the first node's machine run the front door, the loops and the agent as processes of their own, which speak over HTTP.
var apart = os.Getenv("KLOOP_E2E_APART") != ""

// home is the directory of a node's runtime.
func (c *testCluster) home(node int) string {
	if apart && node == 0 {
		return filepath.Join(c.dir, nodes[0].name, "agent")
	}
	return filepath.Join(c.dir, nodes[node].name)
}

// startRest starts what the server's process leaves to others.
func (c *testCluster) startRest() error {
	if !apart {
		return nil
	}
	if err := c.startLoops(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() {
		var err error
		c.first, err = c.joinAs(0, "--manifests", filepath.Join(c.dir, "manifests"))
		ready <- err
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ready:
			return err
		case <-tick.C:
			if err := c.approve(nodes[0].name); err != nil {
				return err
			}
		}
	}
}

// approve does what is left to people: this node has the address of the API, for which no loop approves a serving certificate.
func (c *testCluster) approve(node string) error {
	ctx := context.Background()
	requests := c.client.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
	if err != nil {
		return err
	}
	for _, r := range list.Items {
		if len(r.Status.Conditions) > 0 || r.Spec.Username != "system:node:"+node {
			continue
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "OnTheServersMachine"}}
		if _, err := requests.UpdateApproval(ctx, r.Name, &r, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (c *testCluster) startLoops() (err error) {
	c.loops, err = c.spawn(0, append([]string{"controllers", "--kubeconfig", c.kubeconfig, "--lease", "5s", "--log", "debug",
		"--node-monitor-grace", grace.String(), "--volume-snapshots",
		"--cluster-signing-cert-file", filepath.Join(c.dir, "one", "pki", "ca.crt"),
		"--cluster-signing-key-file", filepath.Join(c.dir, "one", "pki", "ca.key")}, ranges("cluster-cidr", "service-cluster-ip-range")...))
	return err
}

// TestLoopsKilledDuringRollout ends the loops where they are a process of their own; the lease of those that are gone runs out first.
func TestLoopsKilledDuringRollout(t *testing.T) {
	if !apart {
		t.Skip("the loops are in the server's process, which TestKillDuringRollout kills")
	}
	ns := space(t)
	apply(t, ns, web("web", 3, ""))
	rolledOut(t, ns, "web")
	kubectl(t, "set", "image", "-n", ns, "deployment/web", "web=nginx:2")
	eventually(t, "the rollout begins", func() (bool, string) {
		d := deployment(t, ns, "web")
		return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas > 0, fmt.Sprintf("%+v", d.Status)
	})
	if err := end(it.loops, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := it.startLoops(); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, ns, "web")
}

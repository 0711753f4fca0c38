//go:build linux

package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const nodeDir = "/var/lib/kloop-node"

// apiUnit runs a cluster without a node of its own beside the node of this machine, which the unit of the package does not allow.
const apiUnit = `[Service]
Type=notify
ExecStart=` + fresh + ` up --node none --data-dir ` + dataDir + ` --listen ` + address + `:6443
KillMode=process
TimeoutStartSec=600
`

// TestJoinedNode has a cluster and a node that joins it as two services of one machine, each at an address of its own. The node uses the
// machine's containerd, then, empty, a runtime of its own, for which it needs no token. Its pods have kloop's network on both, of which the
// other runtime keeps nothing, and run on while services are started anew.
func TestJoinedNode(t *testing.T) {
	if !inGuest(t) {
		return
	}
	startContainerd(t)
	const at = "10.99.0.2"
	link, err := netlink.LinkByName("dummy0")
	if err == nil {
		err = netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(at), Mask: net.CIDRMask(24, 32)}})
	}
	if err := errors.Join(err, os.WriteFile("/etc/systemd/system/api.service", []byte(apiUnit), 0o600)); err != nil {
		t.Fatal(err)
	}
	run(t, "systemctl", "start", "api")
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dataDir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := node{cs}
	_, joins, _ := strings.Cut(run(t, fresh, "token", "--node"), "kloop node ")
	for i, turn := range []struct{ name, endpoint string }{
		{"the machine's containerd", containerd},
		{"a runtime of its own", ""},
	} {
		t.Run(turn.name, func(t *testing.T) {
			flags := []string{"--name", "guest", "--address", at}
			if i == 0 {
				flags = append(flags, strings.Fields(joins)...)
			}
			loads := []string{"image", "load", "--data-dir", nodeDir}
			if turn.endpoint != "" {
				flags, loads = append(flags, "--container-runtime-endpoint", turn.endpoint),
					append(loads, "--container-runtime-endpoint", turn.endpoint)
			}
			run(t, fresh, append([]string{"install", "node", "--"}, flags...)...)
			if i == 0 {
				n.approve(t)
			}
			archive := pack(t, hogImage, "hog")
			until(t, "the runtime has the image", func(ctx context.Context) (bool, any) {
				_, err := try(ctx, kloop, append(loads, archive)...)
				return err == nil, err
			})
			n.turn(t, turn.endpoint)
		})
	}
}

// turn deploys a pod, starts all services anew under it, looks where the network's configuration is, and drains the node.
func (n node) turn(t *testing.T, endpoint string) {
	t.Helper()
	was := n.deploy(t)
	services := []string{"api", "kloop-node"}
	if endpoint != "" {
		services = append(services, "containerd")
	}
	for _, service := range services {
		run(t, "systemctl", "restart", service)
		n.untouched(t, was, "kloop-node", fresh)
	}
	p := n.pod(t, "hog", ready)
	if ip := p.Status.PodIP; ip == "" || ip == p.Status.HostIP {
		t.Errorf("the pod has the address %q", ip)
	}
	until(t, "the node's own API answered", func(ctx context.Context) (bool, any) {
		said, err := n.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		return err == nil, fmt.Errorf("%w: %s", err, said)
	})
	if _, err := os.Stat(network); (err == nil) != (endpoint != "") {
		t.Errorf("the configuration in the place of the machine's runtime: %v", err)
	}
	if err := n.AppsV1().Deployments("default").Delete(t.Context(), "hog", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the pod is gone", func(ctx context.Context) (bool, any) {
		list, err := n.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0 && len(processes(t, "/hog")) == 0, errors.Join(err, errors.New("pods are left"))
	})
}

// approve does by hand what nothing does by itself for an address that the API server's own certificate has too: all of its machine.
func (n node) approve(t *testing.T) {
	t.Helper()
	requests := n.CertificatesV1().CertificateSigningRequests()
	until(t, "the request for the node's serving certificate was approved", func(ctx context.Context) (bool, any) {
		list, err := requests.List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + certificatesv1.KubeletServingSignerName})
		if err != nil || len(list.Items) == 0 {
			return false, fmt.Errorf("no request: %w", err)
		}
		r := &list.Items[0]
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "ByHand"})
		_, err = requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{})
		return err == nil, err
	})
}

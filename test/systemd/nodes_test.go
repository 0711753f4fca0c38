//go:build linux

package systemd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	clustersDir = "/var/lib/kloop-clusters"
	echoImage   = "kloop.dev/echo:1"
	echoPort    = 30080
)

// TestSealedVirtualServers is a cluster of two nodes with real containers, in which WireGuard carries what pods of one node send to
// those of the other, and virtual servers of the kernel choose a Service's endpoint, on the server's own node and on the joined one.
func TestSealedVirtualServers(t *testing.T) {
	if !inGuest(t, "wireguard", "ip_vs", "ip_vs_lc", "ip_vs_rr", "nft_fib_ipv4", "nft_fib_ipv6") {
		return
	}
	run(t, fresh, "create", "two", "--nodes", "2", "--", "--network", "wireguard", "--proxy-mode", "ipvs", "--ipvs-scheduler", "lc")
	run(t, fresh, "image", "load", "--name", "two", pack(t, echoImage, "echo"))
	cfg, err := clientcmd.BuildConfigFromFlags("", clientcmd.RecommendedHomeFile)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := node{cs}
	nodes, err := n.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Fatalf("%d nodes: %v", len(nodes.Items), err)
	}
	for i := range nodes.Items {
		n.serve(t, nodes.Items[i].Name)
	}
	n.service(t)
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		n.ask(t, name)
		before := sealed(t, i+1)
		n.fromOutside(t, nodes.Items[i].Status.Addresses[0].Address, len(nodes.Items))
		if now := sealed(t, i+1); now <= before {
			t.Errorf("%s: kloop-wg received %d bytes before, and %d after", name, before, now)
		}
		if table := virtualServers(t, i+1); strings.Count(table, " lc ") < 3 { // the API, DNS twice, ours twice
			t.Errorf("%s: the kernel's virtual servers are:\n%s", name, table)
		}
	}
	run(t, fresh, "delete", "two")
	if left, err := filepath.Glob(clustersDir + "/[a-z]*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// serve makes a pod of the Service on a node, named like it, and waits for it.
func (n node) serve(t *testing.T, on string) {
	t.Helper()
	n.make(t, on, "echo-"+on, map[string]string{"app": "echo", "on": on})
	until(t, "the pod serves on "+on, func(ctx context.Context) (bool, any) {
		p, err := n.CoreV1().Pods("default").Get(ctx, "echo-"+on, metav1.GetOptions{})
		return err == nil && ready(p), fmt.Errorf("%v: %w", p.Status, err)
	})
}

func (n node) make(t *testing.T, on, name string, labels map[string]string, args ...string) {
	t.Helper()
	until(t, "the pod "+name+" was made", func(ctx context.Context) (bool, any) { // its service account comes first
		_, err := n.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: corev1.PodSpec{NodeName: on, RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "c", Image: echoImage, Args: args}}}}, metav1.CreateOptions{})
		return err == nil, err
	})
}

func (n node) service(t *testing.T) {
	t.Helper()
	_, err := n.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "echo"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "echo"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), NodePort: echoPort}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// ask has a pod on a node ask the Service by its name until the pods of both nodes have answered.
func (n node) ask(t *testing.T, on string) {
	t.Helper()
	n.make(t, on, "asks-"+on, nil, "http://echo.default:80/", "echo-two-1", "echo-two-2")
	until(t, "a pod on "+on+" had answers of both", func(ctx context.Context) (bool, any) {
		p, err := n.CoreV1().Pods("default").Get(ctx, "asks-"+on, metav1.GetOptions{})
		if err == nil && p.Status.Phase == corev1.PodFailed {
			said, _ := n.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx) // for the message
			t.Fatalf("a pod on %s: %s", on, said)
		}
		return err == nil && p.Status.Phase == corev1.PodSucceeded, fmt.Errorf("%v: %w", p.Status, err)
	})
}

// fromOutside asks a node's port until so many pods have answered.
func (n node) fromOutside(t *testing.T, address string, pods int) {
	t.Helper()
	seen := map[string]bool{}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	until(t, "the node port of "+address+" leads to all pods", func(ctx context.Context) (bool, any) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/", address, echoPort), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			return false, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		name, _, _ := strings.Cut(string(text), " ")
		seen[name] = true
		return len(seen) == pods, fmt.Errorf("%v: %w", seen, err)
	})
}

// sealed returns how many bytes have come to a node by WireGuard.
func sealed(t *testing.T, n int) (bytes uint64) {
	t.Helper()
	within(t, n, func() error {
		link, err := netlink.LinkByName("kloop-wg")
		if err == nil {
			bytes = link.Attrs().Statistics.RxBytes
		}
		return err
	})
	return bytes
}

func virtualServers(t *testing.T, n int) (table string) {
	t.Helper()
	within(t, n, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/ip_vs")
		table = string(text)
		return err
	})
	return table
}

// within runs do in the network namespace of a node.
func within(t *testing.T, n int, do func() error) {
	t.Helper()
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		f, err := os.Open(fmt.Sprintf("%s/two/%d.netns", clustersDir, n))
		if err != nil {
			failed <- err
			return
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			failed <- err
			return
		}
		failed <- do()
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

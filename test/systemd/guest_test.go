//go:build linux

package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/test/need"
	"github.com/kloop-dev/kloop/test/vm"
)

const (
	address  = "10.99.0.1"
	dataDir  = "/var/lib/kloop"
	hogImage = "kloop.dev/hog:1"
	fresh    = "/root/kloop" // the program, before it is installed
	kloop    = "/usr/local/bin/kloop"
)

// modules are those that a node's networks and packet filters need.
var modules = []string{"overlay", "veth", "bridge", "br_netfilter", "vxlan", "dummy", "nf_tables", "nft_chain_nat", "nft_ct", "nft_masq",
	"nft_redir", "nft_numgen", "nft_hash", "nft_reject_inet", "nft_fib_inet", "nft_nat", "nft_limit", "nf_conntrack_netlink",
	"nft_log", "nft_reject_ipv4", "nft_reject_ipv6", "nft_compat", "xt_comment", "xt_mark", "xt_conntrack", "xt_addrtype", "xt_multiport",
	"xt_MASQUERADE", "xt_nat", "autofs4"}

// inGuest runs the test on a machine with systemd, as root, whose kernel has further modules. It returns false on the host.
func inGuest(t *testing.T, further ...string) bool {
	t.Helper()
	t.Attr("retry", "never")
	const built = "../../bin/kloop"
	if !vm.Inside() {
		if _, err := os.Stat(built); err != nil {
			need.Have(t, need.Qemu, fmt.Errorf("make bin/kloop: %w", err))
		}
	}
	if !vm.Run(t, vm.Config{Systemd: true, Memory: 4096, Timeout: 18 * time.Minute, Modules: slices.Concat(modules, further),
		Files: map[string]string{fresh: built},
		Build: map[string]string{"/root/hog": "../../machine/testdata/hog", "/root/echo": "./testdata/echo"}}) {
		return false
	}
	link, err := netlink.LinkByName("dummy0")
	if err != nil {
		t.Fatal(err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(24, 32)}}
	if err := errors.Join(netlink.AddrAdd(link, addr), netlink.LinkSetUp(link)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("journalctl", "--no-pager", "-n", "150", "-o", "cat", "-u", "kloop").CombinedOutput()
			t.Logf("the service's journal:\n%s", out)
			told, _ := os.ReadFile(filepath.Join(dataDir, "runtime", "containerd.log"))
			t.Logf("containerd's log ends:\n%s", told[max(0, len(told)-8<<10):])
		}
	})
	return true
}

// run runs a command, which must not fail, and returns what it says.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(ctx context.Context, name string, args ...string) (string, error) {
	start := time.Now()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	fmt.Printf("# %s %s: %s, %v\n", filepath.Base(name), strings.Join(args, " "), time.Since(start).Round(time.Millisecond), err)
	if err != nil {
		words := strings.Join(strings.Fields(string(out)), " ") // one line, which CI's table shows
		return string(out), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, words)
	}
	return strings.TrimSpace(string(out)), nil
}

// a node is a cluster of one node, which is this machine.
type node struct{ *kubernetes.Clientset }

// install has systemd run the program, and gives the node's runtime an image.
func install(t *testing.T, flags ...string) node {
	t.Helper()
	return installOn(t, "", flags...)
}

// installOn is install with a runtime that runs already; "": with one of kloop's own.
func installOn(t *testing.T, endpoint string, flags ...string) node {
	t.Helper()
	loads := []string{"image", "load"}
	if endpoint != "" {
		at := "--container-runtime-endpoint=" + endpoint
		flags, loads = append(flags, at), append(loads, at)
	}
	args := append([]string{"install", "--", "--listen", address + ":6443", "--node-name", "guest"}, flags...)
	run(t, fresh, args...)
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dataDir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	archive := pack(t, hogImage, "hog")
	until(t, "the runtime has the image", func(ctx context.Context) (bool, any) {
		_, err := try(ctx, kloop, append(loads, archive)...)
		return err == nil, err
	})
	return node{cs}
}

// pack makes an image of one of the programs in /root, and returns the path of its archive.
func pack(t *testing.T, ref, name string) string {
	t.Helper()
	program, err := os.ReadFile("/root/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	files := []image.File{{Path: "/" + name, Mode: 0o755, Data: program}}
	err = image.Pack(&b, image.Spec{Ref: ref, Files: files, Entrypoint: []string{"/" + name}})
	path := "/root/" + name + ".tar"
	if err := errors.Join(err, os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// until polls, for as long as a slow machine may take.
func until(t *testing.T, what string, ok func(context.Context) (bool, any)) {
	t.Helper()
	eventually.Sees(t, 4*time.Minute, what, func() (bool, any) { return ok(t.Context()) })
}

// pod waits until the one pod with a label is so.
func (n node) pod(t *testing.T, app string, ok func(*corev1.Pod) bool) (pod *corev1.Pod) {
	t.Helper()
	until(t, "pod of "+app+" got so far", func(ctx context.Context) (bool, any) {
		list, err := n.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil || len(list.Items) != 1 {
			return false, fmt.Errorf("%d pods: %w", len(list.Items), err)
		}
		pod = &list.Items[0]
		return ok(pod), pod.Status
	})
	return pod
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

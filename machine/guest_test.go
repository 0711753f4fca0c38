package machine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/node/systemd"
	"github.com/kloop-dev/kloop/test/need"
	"github.com/kloop-dev/kloop/test/vm"
)

const hogImage = "kloop.dev/hog:1"

// network has the modules of a bridge, of packet filters and of what the pod network and the proxy write into them.
var network = []string{"overlay", "veth", "bridge", "br_netfilter", "vxlan", "dummy", "nf_tables", "nft_chain_nat", "nft_ct", "nft_masq",
	"nft_redir", "nft_numgen", "nft_hash", "nft_reject_inet", "nft_fib_inet", "nft_nat", "nft_limit", "nf_conntrack_netlink",
	"nft_log", "nft_reject_ipv4", "nft_reject_ipv6"}

// TestVersion2 has a whole node, with a real containerd and runc, on a kernel with cgroup version 2 alone: limits of pods and
// containers, a resize while they run, what the kernel keeps for them, an end for want of memory, and nothing left of the cgroups.
func TestVersion2(t *testing.T) {
	if !vm.Inside() {
		need.Have(t, need.Containerd, runtime.Available(runtime.Config{}))
	}
	if !vm.Run(t, vm.Config{
		Memory: 3072, Timeout: 10 * time.Minute, Modules: network, Build: map[string]string{"/hog": "./testdata/hog"},
		Programs: []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "/usr/lib/cni/bridge", "/usr/lib/cni/host-local",
			"/usr/lib/cni/portmap", "/usr/lib/cni/loopback"},
	}) {
		return
	}
	n := startNode(t, "")
	r := corev1.ResourceRequirements{Requests: list("100m", "32Mi"), Limits: list("200m", "64Mi")}
	sure := corev1.ResourceRequirements{Requests: list("100m", "40Mi"), Limits: list("100m", "40Mi")}
	for name, p := range map[string]struct {
		mib string
		r   corev1.ResourceRequirements
	}{"limits": {"16", r}, "kept": {"8", sure}, "hog": {"128", corev1.ResourceRequirements{Limits: list("1", "48Mi")}}} {
		n.create(t, name, p.mib, p.r)
	}
	t.Run("limits and resize", n.limits)
	t.Run("kept memory", n.kept)
	t.Run("out of memory", n.outOfMemory)
	t.Run("removal", n.removal)
}

// TestSystemdDriver has systemd make the cgroups of a node's pods, on a machine that it runs: of each class of service, with the limits,
// also after a resize, and none is left. The runtime tells that it goes by systemd.
func TestSystemdDriver(t *testing.T) {
	if !vm.Run(t, vm.Config{Systemd: true, Memory: 4096, Timeout: 10 * time.Minute, Modules: network,
		Build: map[string]string{"/hog": "./testdata/hog"}}) {
		return
	}
	n := startNode(t, runtime.Systemd)
	n.create(t, "limits", "16", corev1.ResourceRequirements{Requests: list("100m", "32Mi"), Limits: list("200m", "64Mi")})
	n.create(t, "kept", "8", corev1.ResourceRequirements{Requests: list("100m", "40Mi"), Limits: list("100m", "40Mi")})
	n.create(t, "free", "8", corev1.ResourceRequirements{})
	t.Run("limits and resize", n.limits)
	t.Run("kept memory", n.kept)
	t.Run("best effort", func(t *testing.T) {
		dir := n.groupOf(n.wait(t, "free", running))
		if !strings.HasPrefix(filepath.Base(dir), "kubepods-besteffort-pod") {
			t.Errorf("it is in %s", dir)
		}
		holds(t, dir, map[string]string{"memory.max": "max", "cpu.max": "max 100000", "cpu.weight": "1", "pids.max": "200"})
	})
	t.Run("what the runtime tells", func(t *testing.T) {
		rt, err := runtime.Connect(t.Context(), n.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		if driver, err := rt.CgroupDriver(t.Context(), ""); err != nil || driver != runtime.Systemd {
			t.Errorf("it tells %q, %v", driver, err)
		}
		if _, err := rt.CgroupDriver(t.Context(), runtime.Cgroupfs); err == nil {
			t.Error("another driver than the runtime's is accepted")
		}
	})
	t.Run("after systemd read its files", func(t *testing.T) { // it writes again what it knows
		if out, err := exec.CommandContext(t.Context(), "systemctl", "daemon-reload").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		holds(t, n.groupOf(n.wait(t, "kept", running)), map[string]string{"memory.min": "41943040", "memory.max": "41943040"})
	})
	t.Run("removal", n.removal)
	out, err := exec.CommandContext(t.Context(), "systemctl", "list-units", "--all", "--plain", "--no-legend", "kubepods*").Output()
	if text := string(out); err != nil || strings.Contains(text, "-pod") || !strings.Contains(text, "kubepods-burstable.slice") {
		t.Errorf("systemd has %s, %v", text, err)
	}
}

// guestNode is a cluster of one node that this process runs.
type guestNode struct {
	*kubernetes.Clientset
	tree   *cgroup.Tree
	socket string
}

func startNode(t *testing.T, driver string) guestNode {
	t.Helper()
	const dir, address = "/var/lib/kloop", "10.99.0.1"
	link, err := netlink.LinkByName("dummy0")
	if err != nil {
		t.Fatal(err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(24, 32)}}
	if err := errors.Join(netlink.AddrAdd(link, addr), netlink.LinkSetUp(link)); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(),
		Store: cluster.StoreMemory, Node: cluster.NodeReal, Machine: Here, NodeDir: dir, NodeName: "guest", Listen: address + ":6443",
		Log:       slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelWarn})),
		ProxyMode: cluster.ProxyNone, NoPolicies: true, NoLocalStorage: true, DNS: cluster.ClusterDNS{Off: true},
		NodeResources: cluster.NodeResources{PodPidsLimit: 200, MemoryReservationPolicy: "TieredReservation", MemoryThrottlingFactor: "0.9",
			CgroupDriver: driver},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/hog")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	files := []image.File{{Path: "/hog", Mode: 0o755, Data: program}}
	err = image.Pack(&b, image.Spec{Ref: hogImage, Files: files, Entrypoint: []string{"/hog"}})
	if err := errors.Join(err, os.WriteFile("/hog.tar", b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	socket := runtime.New(runtime.Config{Dir: filepath.Join(dir, "runtime")}).Socket()
	until(t, "the runtime has the image", func(ctx context.Context) (bool, any) {
		_, err := runtime.Load(ctx, socket, "/hog.tar")
		return err == nil, err
	})
	n := guestNode{cs, cgroup.Open(cgroup.Root, cgroup.Pods), socket}
	if driver == runtime.Systemd {
		n.tree.By(systemd.NewSlices(systemd.Socket))
	}
	return n
}

// until polls, for as long as a slow machine may take.
func until(t *testing.T, what string, ok func(context.Context) (bool, any)) {
	t.Helper()
	eventually.Sees(t, 100*time.Second, what, func() (bool, any) { return ok(t.Context()) })
}

// create makes a pod with one container that holds so many MiB. It is in the node's network: nothing is to be seen of another.
func (n guestNode) create(t *testing.T, name, mib string, r corev1.ResourceRequirements) {
	t.Helper()
	until(t, "pod "+name+" was made", func(ctx context.Context) (bool, any) {
		_, err := n.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, HostNetwork: true,
			Containers: []corev1.Container{{Name: "c", Image: hogImage, Args: []string{mib}, Resources: r}},
		}}, metav1.CreateOptions{})
		return err == nil, err // the account of pods may not be there yet
	})
}

// wait waits for a state of a pod.
func (n guestNode) wait(t *testing.T, name string, ok func(*corev1.Pod) bool) (pod *corev1.Pod) {
	t.Helper()
	until(t, "pod "+name+" got so far", func(ctx context.Context) (bool, any) {
		p, err := n.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		pod = p
		return ok(p), p.Status
	})
	return pod
}

func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse(cpu), corev1.ResourceMemory: apiresource.MustParse(memory)}
}

func (n guestNode) groupOf(pod *corev1.Pod) string {
	return filepath.Join(cgroup.Root, n.tree.Pod(pod.Status.QOSClass, pod.UID))
}

// holds compares files of a cgroup.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for file, text := range want {
		until(t, file+" of "+dir+" is "+text, func(context.Context) (bool, any) {
			data, err := os.ReadFile(filepath.Join(dir, file))
			return err == nil && strings.TrimSpace(string(data)) == text, string(data)
		})
	}
}

// containerGroup is the cgroup of a pod's one container, which the runtime made: it is told from the pause's by its limit.
func (n guestNode) containerGroup(pod *corev1.Pod) string {
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	if n.tree.Parent("/a/b") == "b" { // systemd's
		id = "cri-containerd-" + id + ".scope"
	}
	return filepath.Join(n.groupOf(pod), id)
}

func (n guestNode) limits(t *testing.T) {
	pod := n.wait(t, "limits", running)
	holds(t, n.groupOf(pod), map[string]string{"memory.max": "67108864", "cpu.max": "20000 100000", "pids.max": "200",
		"memory.low": "33554432", "memory.min": "0"})
	holds(t, n.containerGroup(pod), map[string]string{"memory.max": "67108864", "cpu.max": "20000 100000", "memory.oom.group": "1",
		"memory.low": "33554432", "memory.high": "63750144"})
	holds(t, filepath.Dir(n.groupOf(pod)), map[string]string{"memory.low": "33554432"})

	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("200m", "48Mi"), Limits: list("400m", "96Mi")}
	pods := n.CoreV1().Pods("default")
	until(t, "the resize was asked for", func(ctx context.Context) (bool, any) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil {
			now.Spec.Containers[0].Resources = pod.Spec.Containers[0].Resources
			_, err = pods.UpdateResize(ctx, pod.Name, now, metav1.UpdateOptions{})
		}
		return err == nil, err
	})
	holds(t, n.groupOf(pod), map[string]string{"memory.max": "100663296", "cpu.max": "40000 100000"})
	holds(t, n.containerGroup(pod), map[string]string{"memory.max": "100663296", "cpu.max": "40000 100000"})
	until(t, "the status has the new limits", func(ctx context.Context) (bool, any) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s := now.Status.ContainerStatuses[0]
		return s.RestartCount == 0 && s.State.Running != nil && s.Resources != nil && s.Resources.Limits.Memory().Value() == 96<<20, now.Status
	})
}

// kept looks at what the kernel keeps for a Guaranteed pod, and for all pods together.
func (n guestNode) kept(t *testing.T) {
	pod := n.wait(t, "kept", running)
	holds(t, n.groupOf(pod), map[string]string{"memory.min": "41943040", "memory.max": "41943040", "memory.high": "max"})
	holds(t, n.containerGroup(pod), map[string]string{"memory.min": "41943040"})
	holds(t, filepath.Join(cgroup.Root, n.tree.Pods()), map[string]string{"memory.min": "41943040"})
}

func (n guestNode) outOfMemory(t *testing.T) {
	pod := n.wait(t, "hog", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	end := pod.Status.ContainerStatuses[0].State.Terminated
	if end == nil || end.Reason != "OOMKilled" || end.ExitCode != 137 {
		t.Errorf("ended as %+v", end)
	}
}

func (n guestNode) removal(t *testing.T) {
	pods := n.CoreV1().Pods("default")
	all, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 3 {
		t.Fatalf("%d pods, %v", len(all.Items), err)
	}
	soon := int64(1)
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: &soon}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Items {
		until(t, "the cgroup of "+p.Name+" went", func(context.Context) (bool, any) {
			_, err := os.Stat(n.groupOf(&p))
			return errors.Is(err, os.ErrNotExist), err
		})
	}
	until(t, "the pods went", func(ctx context.Context) (bool, any) {
		left, err := pods.List(ctx, metav1.ListOptions{})
		return err == nil && len(left.Items) == 0, err
	})
}

package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/clusters"
	"github.com/kloop-dev/kloop/internal/eventually"
	nodeimage "github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/test/need"
)

// asKloop makes this test program kloop, for the processes that a cluster consists of.
const asKloop = "KLOOP_TEST_IS_KLOOP"

func TestMain(m *testing.M) {
	if os.Getenv(asKloop) != "" {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}

// desk is a person's machine: clusters and a kubeconfig of their own.
type desk struct {
	t          *testing.T
	root, keys string
}

func newDesk(t *testing.T, root string) *desk {
	d := &desk{t, root, filepath.Join(t.TempDir(), "config")}
	t.Setenv(asKloop, "1")
	t.Setenv("KLOOP_CLUSTERS", root)
	t.Setenv("KUBECONFIG", d.keys)
	t.Cleanup(func() { // the test's context has ended by then
		var out bytes.Buffer
		if code := Run(context.Background(), strings.NewReader(""), &out, &out, []string{"kloop", "delete", "--all"}); code != 0 {
			t.Errorf("clean up: %s", &out)
		}
	})
	return d
}

// run runs a command line, which must end with that code.
func (d *desk) run(want int, line string) string {
	d.t.Helper()
	var out bytes.Buffer
	if code := Run(d.t.Context(), strings.NewReader(""), &out, &out, append([]string{"kloop"}, strings.Fields(line)...)); code != want &&
		d.t.Context().Err() == nil {
		d.t.Fatalf("kloop %s: code %d, want %d: %s", line, code, want, &out)
	}
	return out.String()
}

// server is the address of a context's cluster.
func (d *desk) server(context string) string {
	d.t.Helper()
	_, cfg, err := chosen("", context)
	if err != nil {
		d.t.Fatal(err)
	}
	return cfg.Host
}

// wants fails unless a text has all the words.
func (d *desk) wants(text string, words ...string) {
	d.t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			d.t.Errorf("no %q in %q", w, text)
		}
	}
}

// asker asks a cluster by its context in the kubeconfig.
func (d *desk) asker(context string) *ask.Asker {
	d.t.Helper()
	_, cfg, err := chosen("", context)
	if err != nil {
		d.t.Fatal(err)
	}
	a, err := ask.New(cfg, "")
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

const ownSettings = "apiVersion: kloop.dev/v1alpha1\nkind: Config\nemulatedVersion: \"1.36\"\n"

// Several clusters live side by side, each with its context; a kubeconfig that was there before is the same when they are gone.
func TestNamedClusters(t *testing.T) {
	d := newDesk(t, filepath.Join(t.TempDir(), "clusters"))
	before := clientcmdYAML("before")
	if err := os.WriteFile(d.keys, before, 0o640); err != nil {
		t.Fatal(err)
	}
	d.wants(d.run(0, "create a --sim-nodes 3"), "cluster a is ready after", "context kloop-a in "+d.keys)
	own := t.TempDir() // the paths of flags begin where the person is
	if err := os.WriteFile(filepath.Join(own, "own.yaml"), []byte(ownSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(own)
	d.wants(d.run(0, "create b --sim-nodes 1 -- --config own.yaml"), "1 simulated node,")
	d.wants(d.run(1, "create a --sim-nodes 3"), "exists already: kloop start a")
	d.wants(d.run(2, "create B --sim-nodes 3"), "can't be a cluster's name")
	d.wants(d.run(0, "list"), "a      running   3 simulated nodes", "b      running   1 simulated node")
	d.wants(d.run(0, "list -o json"), `"name": "a"`, `"state": "running"`, `"context": "kloop-b"`)
	d.wants(d.run(0, "list -o yaml"), "- context: kloop-a", "  name: b")
	d.wants(d.run(0, "loops -o json"), `"name": "deployment"`)
	d.wants(d.run(0, "loops -o yaml"), "  name: deployment")
	d.wants(d.run(2, "list -o xml"), "neither json nor yaml")
	d.wants(d.run(0, "status"), "cluster   kloop-b at https://127.0.0.1:", "because   KUBECONFIG="+d.keys, "nodes     1 of 1 ready",
		"state     running", "as        1.36, which it emulates")
	d.wants(d.run(0, "status --context kloop-a"), "nodes     3 of 3 ready")
	d.wants(d.run(1, "stop"), "several clusters")
	d.wants(d.run(0, "kubeconfig --user jane --data-dir "+filepath.Join(d.root, "b", "1")), fmt.Sprintf("server: \"%s\"", d.server("kloop-b")))

	for _, step := range []string{"rotate", "finish --force"} { // the context goes with the keys, and is not made current
		d.wants(d.run(0, "certs "+step), "believed")
		d.wants(d.run(0, "status"), "cluster   kloop-b", "nodes     1 of 1 ready")
	}

	d.wants(d.run(0, "stop a"), "kloop start a")
	d.wants(d.run(1, "status a"), "state     stopped: kloop start a")
	d.wants(d.run(1, "status --context kloop-a"), "state     stopped: kloop start a")
	d.wants(d.run(0, "stop a"), "is stopped")
	d.wants(d.run(0, "start a"), "is ready after")
	d.wants(d.run(0, "start a"), "runs already")
	d.wants(d.run(0, "status a"), "nodes     3 of 3 ready")
	d.wants(d.run(1, "image list"), "cluster b has simulated nodes")

	d.wants(d.run(0, "delete a"), "is deleted")
	d.wants(d.run(0, "delete b"), "is deleted")
	d.wants(d.run(1, "delete a"), "no such cluster")
	after, err := os.ReadFile(d.keys)
	info, bad := os.Stat(d.keys)
	if err != nil || bad != nil || !bytes.Equal(before, after) || info.Mode().Perm() != 0o640 {
		t.Errorf("the kubeconfig was %s and is, with mode %v, %s", before, info.Mode(), after)
	}
	if left, err := filepath.Glob(d.root + "/[a-z]*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// clientcmdYAML is a kubeconfig as kubectl writes it.
func clientcmdYAML(name string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
clusters:
- cluster:
    server: https://%[1]s.example.com
  name: %[1]s
contexts:
- context:
    cluster: %[1]s
    user: %[1]s
  name: %[1]s
current-context: %[1]s
kind: Config
users:
- name: %[1]s
  user:
    token: t
`, name)
}

// A cluster that can't start says why, and leaves nothing.
func TestClusterThatCannotStart(t *testing.T) {
	d := newDesk(t, filepath.Join(t.TempDir(), "clusters"))
	d.wants(d.run(2, "create bad --sim-nodes 1 -- --store paper"), "use etcd or memory")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	d.wants(d.run(1, "create bad --sim-nodes 1 -- --pprof "+taken.Addr().String()), "address already in use")
	d.wants(d.run(0, "list"), "NAME")
	if _, err := os.Stat(filepath.Join(d.root, "bad")); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
	if _, err := os.Stat(d.keys); !os.IsNotExist(err) {
		t.Errorf("it has a context: %v", err)
	}
}

// Real nodes in network namespaces run pods, survive a supervisor that is killed and a stop, and leave nothing when they are deleted.
func TestNamedClusterOfRealNodes(t *testing.T) {
	need.BeRoot(t)
	need.Have(t, need.Containerd, runtime.Available(runtime.Config{}))
	short, err := os.MkdirTemp("/var/tmp", "kl") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	d := newDesk(t, short)
	name := "t" + strconv.Itoa(os.Getpid())
	d.wants(d.run(0, "create "+name+" --nodes 2"), "2 nodes")
	root, err := clusters.Default()
	if err != nil {
		t.Fatal(err)
	}
	c, err := root.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "wait.tar")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := nodeimage.Pause(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	d.wants(d.run(0, "image load "+archive), "loaded "+nodeimage.PauseRef+" on 2 nodes")
	d.wants(d.run(0, "image list"), nodeimage.PauseRef)
	d.apply(c)
	d.running(c, 2)
	d.mountNamespaces(c)
	d.running(c, 2)
	traces := d.traces(c)
	if len(traces) < 10 {
		t.Errorf("running pods have no traces? %q", traces)
	}

	text, err := os.ReadFile(filepath.Join(c.Dir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the kernel lets go of its lock", func() bool { return !c.Running() })
	d.run(0, "start "+name)
	d.running(c, 2)
	d.run(0, "stop "+name)
	if left := d.traces(c); len(left) > 0 {
		t.Errorf("when it is stopped, this is left: %q", left)
	}
	d.run(0, "start "+name)
	d.running(c, 2)
	d.run(0, "delete "+name)
	if left := d.traces(c); len(left) > 0 {
		t.Errorf("when it is deleted, this is left: %q", left)
	}
}

// apply makes one pod for each node.
func (d *desk) apply(c *clusters.Cluster) {
	d.t.Helper()
	a := d.asker(c.Context())
	for n := 1; n <= c.Nodes; n++ {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%d"},"spec":{"nodeName":%q,"terminationGracePeriodSeconds":0,
			"containers":[{"name":"c","image":%q,"imagePullPolicy":"Never","resources":{"limits":{"memory":"32Mi"}}}]}}`, n, c.NodeName(n),
			nodeimage.PauseRef)
		err := a.Raw.Post().AbsPath("/api/v1/namespaces/default/pods").SetHeader("Content-Type",
			"application/json").Body([]byte(body)).Do(d.t.Context()).Error()
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// running waits until so many pods run and are ready, by what their nodes said after they started.
func (d *desk) running(c *clusters.Cluster, want int) {
	d.t.Helper()
	var seen string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var list corev1.PodList
		if err := d.asker(c.Context()).Get(d.t.Context(), "/api/v1/namespaces/default/pods", &list); err != nil {
			seen = err.Error()
			continue
		}
		ready := 0
		for i := range list.Items {
			for _, cond := range list.Items[i].Status.Conditions {
				if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		processes := len(d.containers(c))
		if seen = fmt.Sprintf("%d of %d ready, %d processes", ready, len(list.Items), processes); ready >= want && processes >= 2*want {
			return
		}
	}
	d.t.Fatalf("not %d pods run: %s", want, seen)
}

// containers are the processes of pods: those in the cgroups of the cluster's pods.
func (d *desk) containers(c *clusters.Cluster) (list []string) {
	uids, _ := filepath.Glob(filepath.Join(c.Dir(), "*/node/pods/*"))
	procs, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, p := range procs {
		text, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		for _, uid := range uids {
			if strings.Contains(string(text), filepath.Base(uid)) {
				list = append(list, p)
			}
		}
	}
	return list
}

// traces lists the things of a cluster in the machine outside of its directory: links, mounts, processes, cgroups, logs, caches.
func (d *desk) traces(c *clusters.Cluster) (list []string) {
	d.t.Helper()
	links, _ := filepath.Glob(fmt.Sprintf("/sys/class/net/kloop%d*", c.Index))
	list = append(list, links...)
	for _, file := range []string{"/proc/self/mounts", "/proc/net/route"} {
		text, err := os.ReadFile(file)
		if err != nil {
			d.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, c.Dir()) || strings.HasPrefix(line, fmt.Sprintf("kloop%d\t", c.Index)) {
				list = append(list, line)
			}
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if text, err := os.ReadFile(p); err == nil && bytes.Contains(text, []byte(c.Dir()+"/")) {
			list = append(list, string(text))
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/kloop-", "/sys/fs/cgroup/*/kloop-"} {
		groups, _ := filepath.Glob(pattern + c.Name + "-*")
		list = append(list, groups...)
	}
	for _, uid := range d.uids(c) {
		for _, pattern := range []string{"/sys/fs/cgroup/*/kubepods/*/pod" + uid, "/sys/fs/cgroup/*/kubepods/pod" + uid,
			"/sys/fs/cgroup/kubepods/*/pod" + uid,
			"/sys/fs/cgroup/kubepods/pod" + uid, "/var/log/pods/*" + uid} {
			found, _ := filepath.Glob(pattern)
			list = append(list, found...)
		}
		files, _ := filepath.Glob("/var/lib/cni/results/*")
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(uid)) {
				list = append(list, f)
			}
		}
	}
	return list
}

// seenPods are the uids of the pods that were ever seen, by cluster.
var seenPods = map[string]map[string]bool{}

func (d *desk) uids(c *clusters.Cluster) (list []string) {
	if seenPods[c.Name] == nil {
		seenPods[c.Name] = map[string]bool{}
	}
	dirs, _ := filepath.Glob(filepath.Join(c.Dir(), "*/node/pods/*"))
	for _, dir := range dirs {
		seenPods[c.Name][filepath.Base(dir)] = true
	}
	for uid := range seenPods[c.Name] {
		list = append(list, uid)
	}
	return list
}

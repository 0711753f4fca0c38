package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/test/need"
)

var quiet = slog.New(slog.DiscardHandler)

// start runs a cluster for one test.
func start(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	cfg.Log = quiet
	cfg.Kit = whole.Kit()
	c, err := cluster.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return c
}

// config is the administrator's, without client-go's own brakes.
func config(t *testing.T, c *cluster.Cluster) *rest.Config {
	t.Helper()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func clientset(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// patience is how long anything may take on a machine with much else to do.
const patience = 10 * time.Minute

// eventually waits until f is true, as long as patience lasts.
func eventually(t *testing.T, what string, f func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}
}

// TestStopLeavesNothing starts and stops a cluster and counts goroutines and files.
func TestStopLeavesNothing(t *testing.T) {
	run := func() {
		c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), SimNodes: 2, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(t, c)
		if _, err := clientset(t, cfg).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		hangUp(t, cfg)
	}
	run() // what lives once per process: schemas, pools
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 3 {
		run()
	}
	noMoreThan(t, goroutines+2)
	if n := openFiles(t); n > files+2 {
		t.Errorf("%d files open before, %d after", files, n)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	need.Have(t, need.Proc, err)
	return len(list)
}

// TestManyClusters runs 100 clusters in one process: each keeps what it was given, none sees another's objects or
// believes another's certificates, and all of them end.
func TestManyClusters(t *testing.T) {
	const many = 100
	one := start(t, cluster.Config{}) // what lives once per process
	before, goroutines := heap(), runtime.NumGoroutine()
	began := time.Now()
	list := make([]*cluster.Cluster, many)
	for i := range list {
		list[i] = start(t, cluster.Config{})
	}
	took := time.Since(began)
	configs := make([]*rest.Config, many)
	for i, c := range list {
		configs[i] = config(t, c)
		cms := clientset(t, configs[i]).CoreV1().ConfigMaps("default")
		must[*corev1.ConfigMap](t)(cms.Create(t.Context(), configMap(fmt.Sprintf("own-%d", i)), metav1.CreateOptions{}))
	}
	t.Logf("%d clusters: %v and %d KiB of heap each", many, took/many, (heap()-before)/many>>10)
	for i := range list {
		found := must[*corev1.ConfigMapList](t)(clientset(t, configs[i]).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}))
		for _, cm := range found.Items {
			if strings.HasPrefix(cm.Name, "own-") && cm.Name != fmt.Sprintf("own-%d", i) {
				t.Errorf("cluster %d sees %s", i, cm.Name)
			}
		}
	}
	foreign := rest.CopyConfig(configs[0])
	foreign.Host, foreign.CAData, foreign.Insecure = one.URL(), nil, true
	if _, err := clientset(t, foreign).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) &&
		!apierrors.IsUnauthorized(err) {
		t.Errorf("one cluster's administrator at another: %v", err)
	}
	began = time.Now()
	for i, c := range list {
		if err := c.Stop(); err != nil {
			t.Errorf("stop cluster %d: %v", i, err)
		}
		hangUp(t, configs[i])
	}
	t.Logf("stopped in %v each", time.Since(began)/many)
	noMoreThan(t, goroutines+10)
}

// heap is how many bytes live.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// hangUp closes the connections that clients of a configuration share.
func hangUp(t *testing.T, cfg *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
}

// noMoreThan waits until so many goroutines are left.
func noMoreThan(t *testing.T, most int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > most && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > most {
		var dump strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&dump, 1); err != nil {
			t.Error(err)
		}
		t.Errorf("%d goroutines before, %d after\n%s", most, n, dump.String())
	}
}

// TestRestart stops a cluster on etcd and starts it again on the same directory.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), DataDir: dir, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	cs := clientset(t, config(t, first))
	made, err := cs.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("kept"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old, err := first.Kubeconfig("u")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := start(t, cluster.Config{DataDir: dir})
	got, err := clientset(t, config(t, second)).CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != made.UID || got.ResourceVersion != made.ResourceVersion || got.Data["k"] != "v" {
		t.Errorf("got %v, made %v", got, made)
	}
	now, err := second.Kubeconfig("u")
	if err != nil {
		t.Fatal(err)
	}
	if authority(string(old)) != authority(string(now)) {
		t.Error("the restarted cluster has another authority: old kubeconfigs are worthless")
	}
}

func authority(kubeconfig string) string {
	for line := range strings.Lines(kubeconfig) {
		if strings.Contains(line, "certificate-authority-data") {
			return line
		}
	}
	return ""
}

// TestFailedStartFreesThePort lets a start fail and takes its port.
func TestFailedStartFreesThePort(t *testing.T) {
	c := start(t, cluster.Config{})
	addr := strings.TrimPrefix(c.URL(), "https://")
	if _, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), Listen: addr, Log: quiet}); err == nil {
		t.Fatal("two clusters listen at one address")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := cluster.Start(ctx, cluster.Config{Kit: whole.Kit(), Listen: "127.0.0.1:0", Log: quiet}); err == nil {
		t.Error("a start that was called off reports a cluster")
	}
}

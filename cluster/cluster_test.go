package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
)

var quiet = slog.New(slog.DiscardHandler)

// start runs a cluster for one test.
func start(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	cfg.Log = quiet
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

// eventually waits until f is true, 20 s at most.
func eventually(t *testing.T, what string, f func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}
}

// TestStopLeavesNothing starts and stops a cluster and counts goroutines and files.
func TestStopLeavesNothing(t *testing.T) {
	run := func() {
		c, err := cluster.Start(context.Background(), cluster.Config{SimNodes: 2, Log: quiet})
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
		if client, err := rest.HTTPClientFor(cfg); err == nil {
			client.CloseIdleConnections()
		}
	}
	run() // what lives once per process: schemas, pools
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 3 {
		run()
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > goroutines+2 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 {
		var dump strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&dump, 1); err != nil {
			t.Error(err)
		}
		t.Errorf("%d goroutines before, %d after\n%s", goroutines, n, dump.String())
	}
	if n := openFiles(t); n > files+2 {
		t.Errorf("%d files open before, %d after", files, n)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// TestManyClusters runs 20 clusters in one process; none sees another's objects.
func TestManyClusters(t *testing.T) {
	var wg, written sync.WaitGroup
	written.Add(20)
	for i := range 20 {
		c, err := cluster.Start(context.Background(), cluster.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		cs := clientset(t, config(t, c))
		wg.Go(func() {
			defer func() { // all at once: each waits a second for its HTTP/2 connections to go
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			}()
			ctx := t.Context()
			_, err := cs.CoreV1().ConfigMaps("default").Create(ctx, configMap(fmt.Sprintf("own-%d", i)), metav1.CreateOptions{})
			written.Done()
			if err != nil {
				t.Error(err)
				return
			}
			written.Wait() // every cluster holds its object now
			list, err := cs.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			for _, cm := range list.Items {
				if strings.HasPrefix(cm.Name, "own-") && cm.Name != fmt.Sprintf("own-%d", i) {
					t.Errorf("cluster %d sees %s", i, cm.Name)
				}
			}
		})
	}
	wg.Wait()
}

// TestRestart stops a cluster on etcd and starts it again on the same directory.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	first, err := cluster.Start(context.Background(), cluster.Config{DataDir: dir, Log: quiet})
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
	if _, err := cluster.Start(t.Context(), cluster.Config{Listen: addr, Log: quiet}); err == nil {
		t.Fatal("two clusters listen at one address")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := cluster.Start(ctx, cluster.Config{Listen: "127.0.0.1:0", Log: quiet}); err == nil {
		t.Error("a start that was called off reports a cluster")
	}
}

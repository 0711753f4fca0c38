package why_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kit/whole"
)

var costRuns = flag.Int("cost", 0, "how often to measure what explaining costs; -profiles DIR keeps CPU profiles")
var profiles = flag.String("profiles", "", "directory for CPU profiles of -cost")

// TestCost measures the 5,000-replica cascade with and without somebody who watches the gaps, and how long answers take
// at 10,000 pods. It judges nothing, and runs only when asked to.
func TestCost(t *testing.T) {
	if *costRuns == 0 {
		t.Skip("-cost N measures")
	}
	for _, watched := range []bool{false, true} {
		var cpu []float64
		for run := range *costRuns {
			cpu = append(cpu, cascade(t, watched, run))
		}
		slices.Sort(cpu)
		t.Logf("watched %v: %.2f CPU-s (median of %.2f)", watched, cpu[len(cpu)/2], cpu)
	}
}

// cascade makes 5,000 pods ready and returns the CPU seconds that it took.
func cascade(t *testing.T, watched bool, run int) float64 {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), SimNodes: 100, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop() }()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	gaps := dyn.Resource(convergence.GroupVersion.WithResource("gaps"))
	if watched {
		w, err := gaps.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		go func() {
			for range w.ResultChan() {
			}
		}()
	}
	deployments := dyn.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	if *profiles != "" {
		f, err := os.Create(filepath.Join(*profiles, fmt.Sprintf("watched-%v-%d.prof", watched, run)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			t.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	before := used()
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "big"}, "spec": map[string]any{
			"replicas": int64(5000), "selector": map[string]any{"matchLabels": map[string]any{"app": "big"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "big"}},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "x"}}}}}}}
	if _, err := deployments.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(*patience); ; time.Sleep(100 * time.Millisecond) {
		d, err := deployments.Get(ctx, "big", metav1.GetOptions{})
		if n, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas"); err == nil && n == 5000 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the pods do not get ready")
		}
	}
	cpu := used() - before
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("watched %v: %.2f CPU-s, %d MiB of heap", watched, cpu, m.HeapAlloc>>20)
	return cpu
}

// used is the CPU time of this process in seconds.
func used() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

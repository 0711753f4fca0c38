package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/runtime"
)

// How many pods the node has in each measurement.
const (
	warmPods  = 20
	burstPods = 100
	restPods  = 110
	fullPods  = 250
	podGrace  = 1 // seconds
)

// node is a kloop with a node of real pods, in a cell, with a raw runtime beside it.
type node struct {
	*cell
	*kubernetes.Clientset
	o    *options
	m    measurement
	p    *process
	raw  *raw
	rep  *report
	pods *podsSeen
}

// realPods measures pods that really run, each beside the same calls of the runtime without kloop, in turn: what else the machine
// does meets both alike. It needs root and containerd.
func realPods(ctx context.Context, o *options, rep *report, m measurement) (err error) {
	fmt.Printf("\n%s\n", m.name)
	if err := runtime.Available(runtime.Config{}); err != nil {
		fmt.Println("  left out:", err)
		return nil
	}
	c, err := newCell()
	if err != nil {
		return err
	}
	defer c.remove()
	n := &node{cell: c, o: o, m: m, rep: rep}
	n.m.args = append(n.m.args, "--node-name", "bench", "--max-pods", fmt.Sprint(fullPods+10), "--cgroup-root", "/"+c.name,
		"--node-cidr-mask-size", "23", "--eviction-hard", "none")
	n.m.cell = c
	if n.p, err = start(ctx, o, n.m, "etcd"); err != nil {
		return err
	}
	dir := n.p.dir
	defer os.RemoveAll(dir)
	defer reap(dir)
	defer func() { n.p.end() }()
	if err := n.connect(ctx); err != nil {
		return err
	}
	rt, stop, err := c.rawRuntime(ctx, filepath.Join(dir, "data", "runtime"), filepath.Join(dir, "raw"))
	if err != nil {
		return fmt.Errorf("start a runtime beside kloop's: %w", err)
	}
	defer stop()
	n.raw = &raw{rt, filepath.Join(dir, "raw")}
	steps := []func(context.Context) error{n.warm, n.burst, n.full, n.restart}
	if o.burstOnly {
		steps = steps[1:2]
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w\n%.2000s", err, n.p.out.String())
		}
	}
	return nil
}

// connect waits until the node is ready, and follows its pods.
func (n *node) connect(ctx context.Context) error {
	t, err := newTarget(n.o, n.p.kubeconfig, []int{n.p.cmd.Process.Pid})
	if err != nil {
		return err
	}
	t.cfg.QPS = -1
	if n.Clientset, err = kubernetes.NewForConfig(t.cfg); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		at, err := n.CoreV1().Nodes().Get(ctx, "bench", metav1.GetOptions{})
		_, aerr := n.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err == nil && aerr == nil {
			for _, c := range at.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					n.pods = follow(n.Clientset)
					return nil
				}
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return errors.New("the node does not get ready")
		}
	}
}

// runtimeDir is the directory of kloop's own runtime.
func (n *node) runtimeDir() string { return filepath.Join(n.p.dir, "data", "runtime") }

func (n *node) figure(name string, value float64, unit string) { n.rep.add(name, "", value, unit) }

// create makes pods on the node and waits until they run.
func (n *node) create(ctx context.Context, prefix string, from, to int) (time.Duration, error) {
	began := time.Now()
	errs := make(chan error, to-from)
	for i := from; i < to; i++ {
		go func() {
			_, err := n.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(podGrace)), AutomountServiceAccountToken: new(false),
					Containers: []corev1.Container{{Name: "c", Image: image.PauseRef, ImagePullPolicy: corev1.PullNever}}}}, metav1.CreateOptions{})
			errs <- err
		}()
	}
	var err error
	for range to - from {
		err = errors.Join(err, <-errs)
	}
	if err == nil {
		err = n.pods.await(ctx, "all run", func(p map[string]*corev1.Pod) bool {
			for i := from; i < to; i++ {
				if at := p[fmt.Sprintf("%s-%d", prefix, i)]; at == nil || at.Status.Phase != corev1.PodRunning {
					return false
				}
			}
			return true
		})
	}
	return time.Since(began), err
}

// remove deletes all pods but so many, and returns how long that took beyond their grace.
func (n *node) remove(ctx context.Context, keep int) (time.Duration, error) {
	began, left := time.Now(), 0
	var err error
	if keep == 0 {
		err = n.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	} else {
		for name := range n.pods.now() {
			if left++; left > keep {
				err = errors.Join(err, n.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}))
			}
		}
	}
	if err == nil {
		err = n.pods.await(ctx, "they are gone", func(p map[string]*corev1.Pod) bool { return len(p) <= keep })
	}
	return time.Since(began) - podGrace*time.Second, err
}

// warm starts one pod at a time, here and without kloop in turn.
func (n *node) warm(ctx context.Context) error {
	var ours, raws times
	for i := range warmPods {
		took, err := n.create(ctx, "warm", i, i+1)
		if err != nil {
			return err
		}
		box, alone, err := n.raw.run(ctx, i)
		if err = errors.Join(err, n.raw.remove(ctx, box)); err != nil {
			return err
		}
		if _, err := n.remove(ctx, 0); err != nil {
			return err
		}
		if i > 0 { // the first finds nothing warm
			ours, raws = append(ours, took), append(raws, alone)
		}
	}
	n.figure("pod, call to Running, median", ours.at(0.5), "ms")
	n.figure("raw runtime, a pod, median", raws.at(0.5), "ms")
	n.figure("pod beyond the raw runtime", ours.at(0.5)-raws.at(0.5), "ms")
	return nil
}

// burst starts many pods at once, and deletes them.
func (n *node) burst(ctx context.Context) error {
	var ours, raws, ends, rawEnds times
	var agent, under, rawUnder, calls float64 // seconds of CPU, and calls of the runtime, of all bursts
	for i := range n.o.bursts {
		asked, err := n.calls(ctx)
		if err != nil {
			return err
		}
		own, below := processes{n.p.cmd.Process.Pid}.cpu(), runtimeCPU(n.runtimeDir())
		took, err := n.create(ctx, fmt.Sprintf("burst%d", i), 0, burstPods)
		if err != nil {
			return err
		}
		agent, under = agent+processes{n.p.cmd.Process.Pid}.cpu()-own, under+runtimeCPU(n.runtimeDir())-below
		end, err := n.remove(ctx, 0)
		if err != nil {
			return err
		}
		then, err := n.calls(ctx)
		if err != nil {
			return err
		}
		calls += then - asked
		below = runtimeCPU(n.raw.dir)
		alone, down, err := n.raw.many(ctx, burstPods, func() { rawUnder += runtimeCPU(n.raw.dir) - below })
		if err != nil {
			return err
		}
		ours, raws, ends, rawEnds = append(ours, took), append(raws, alone), append(ends, end), append(rawEnds, down)
	}
	n.figure(fmt.Sprintf("%d pods all Running", burstPods), ours.at(0.5)/1000, "s")
	n.figure(fmt.Sprintf("raw runtime, %d pods", burstPods), raws.at(0.5)/1000, "s")
	n.figure("rate of the raw runtime's", 100*raws.at(0.5)/ours.at(0.5), "%")
	n.figure(fmt.Sprintf("%d pods gone, beyond their grace", burstPods), ends.at(0.5)/1000, "s")
	n.figure(fmt.Sprintf("raw runtime, %d pods gone", burstPods), rawEnds.at(0.5)/1000, "s")
	pods := float64(n.o.bursts * burstPods)
	n.figure("kloop's CPU for a pod's start", agent/pods*1000, "ms")
	n.figure("runtime's CPU for a pod's start", under/pods*1000, "ms")
	n.figure("raw runtime's CPU for a pod's start", rawUnder/pods*1000, "ms")
	n.figure("calls of the runtime in a pod's life", calls/pods, "calls")
	return nil
}

// full looks at what an agent costs that has many pods and nothing to do, beside the same process without pods.
func (n *node) full(ctx context.Context) error {
	server := processes{n.p.cmd.Process.Pid}
	rest := func() (cpu, mib float64, err error) {
		if err := pause(ctx, settling); err != nil {
			return 0, 0, err
		}
		before, began := server.cpu(), time.Now()
		err = pause(ctx, n.o.idle)
		_, mib = server.memory()
		return (server.cpu() - before) / time.Since(began).Seconds() * 100, mib, err
	}
	cpu, mib, err := rest()
	if err != nil {
		return err
	}
	if _, err := n.create(ctx, "full", 0, fullPods); err != nil {
		return err
	}
	with, more, err := rest()
	n.figure(fmt.Sprintf("idle CPU of %d pods", fullPods), with-cpu, "% of a core")
	n.figure("idle memory of a pod", (more-mib)/fullPods, "MiB")
	return err
}

// restart kills kloop while pods run, and looks at what the next one does until it has seen them all, and for a while after.
func (n *node) restart(ctx context.Context) error {
	if _, err := n.remove(ctx, restPods); err != nil {
		return err
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}
	before := n.pods.now()
	n.pods.stop()
	if err := n.p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-n.p.ended
	began := time.Now()
	n.m.again = n.p
	p, err := start(ctx, n.o, n.m, "etcd")
	if err != nil {
		return err
	}
	n.p = p
	if err := n.observed(ctx); err != nil {
		return err
	}
	n.figure(fmt.Sprintf("restart with %d pods, exec to all observed", restPods), time.Since(began).Seconds(), "s")
	if err := pause(ctx, settling); err != nil {
		return err
	}
	list, err := n.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	written, touched := restPods-len(list.Items), restPods-len(list.Items)
	for _, now := range list.Items {
		was := before[now.Name]
		if was == nil || was.ResourceVersion != now.ResourceVersion {
			written++
		}
		if was == nil || was.Status.ContainerStatuses[0].ContainerID != now.Status.ContainerStatuses[0].ContainerID {
			touched++
		}
	}
	n.figure("pods written because of the restart", float64(written), "pods")
	n.figure("containers touched by the restart", float64(touched), "containers")
	return nil
}

// observed waits until the agent has looked at every pod, by its own count.
func (n *node) observed(ctx context.Context) error {
	const count = `kubelet_pod_worker_duration_seconds_count{operation_type="sync"} `
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		text, err := n.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/bench/proxy/metrics").DoRaw(ctx)
		if _, after, ok := strings.Cut(string(text), count); err == nil && ok {
			var seen float64
			if _, err := fmt.Sscan(after, &seen); err == nil && seen >= restPods {
				return nil
			}
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("the agent does not come to see its pods: %w", err)
		}
	}
}

// podsSeen follows the pods of the namespace default.
type podsSeen struct {
	stop context.CancelFunc
	mu   sync.Mutex
	have map[string]*corev1.Pod
}

func follow(c kubernetes.Interface) *podsSeen {
	ctx, cancel := context.WithCancel(context.Background())
	s := &podsSeen{stop: cancel, have: map[string]*corev1.Pod{}}
	go func() {
		for ctx.Err() == nil {
			w, err := c.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
			if err != nil {
				_ = pause(ctx, 10*time.Millisecond) // it fails only with ctx
				continue
			}
			for e := range w.ResultChan() {
				if pod, ok := e.Object.(*corev1.Pod); ok {
					s.take(e.Type, pod)
				}
			}
			w.Stop()
		}
	}()
	return s
}

func (s *podsSeen) take(what apiwatch.EventType, pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what == apiwatch.Deleted {
		delete(s.have, pod.Name)
	} else {
		s.have[pod.Name] = pod
	}
}

func (s *podsSeen) now() map[string]*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.have)
}

func (s *podsSeen) await(ctx context.Context, what string, ok func(map[string]*corev1.Pod) bool) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		s.mu.Lock()
		done := ok(s.have)
		s.mu.Unlock()
		if done {
			return nil
		}
		if pause(ctx, time.Millisecond) != nil {
			return fmt.Errorf("of %d pods it was not seen within %s that %s", len(s.now()), soon, what)
		}
	}
}

package controllers_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/controllers/horizontalpodautoscaler"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// A cluster is a whole control plane in this process, on simulated nodes and in simulated time.
type cluster struct {
	*client.Local
	t                 *testing.T
	loops             *loop.Watchers
	figures           loop.Figures
	step              atomic.Int64 // by how much the wall clock is wrong
	creates, refusals atomic.Int64 // of loops: creations, and deletions of what is called kept…

	queue   atomic.Int64                     // what external.metrics.k8s.io tells of the metric "queue"; below 0 nobody serves metrics
	adapter atomic.Pointer[http.HandlerFunc] // serves the metrics APIs in place of queue
}

// counted is the sum of a figure, over the labels that are not given; labels are in the figure's order, "" any.
func (c *cluster) counted(name string, labels ...string) (sum float64) {
	for _, s := range c.figures.All() {
		same := s.Of.Name == name
		for i, want := range labels {
			same = same && (want == "" || s.Labels[i] == want)
		}
		if same {
			sum += s.Sum()
		}
	}
	return sum
}

// now is the wall clock, which can be set; the bubble's own goes on as ever.
func (c *cluster) now() time.Time { return time.Now().Add(time.Duration(c.step.Load())) }

// jump sets the wall clock. The loops hear of it, as from the kernel.
func (c *cluster) jump(by time.Duration) {
	c.step.Add(int64(by))
	c.loops.LookAgain()
}

// simulate runs f on a cluster of n nodes inside a bubble: its hours take milliseconds.
func simulate(t *testing.T, n int, f func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, loops: &loop.Watchers{}}
		c.queue.Store(-1)
		c.Local = testcluster.Start(t, func(conf *testcluster.Config) {
			conf.Now, conf.Admission = c.now, plugins.Default(admission.Config{Now: c.now})
		}).Local
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, ns := range []string{"default", "kube-system", "kube-node-lease"} {
			make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		}
		events := client.NewRecorder(c, "kloop", nil)
		wg.Go(func() { events.Run(ctx) })
		run := func(l loop.Loop, component string, own client.Client) {
			wg.Go(func() {
				err := l.Run(ctx, loop.Env{Client: own, Log: slog.New(slog.DiscardHandler), Events: events.For(component, ""),
					Now: c.now, Watch: c.loops, Figures: &c.figures})
				if err != nil {
					t.Errorf("%s: %v", l.LoopName(), err)
				}
			})
		}
		for _, e := range controllers.All(controllers.Config{Kinds: c.Set, RootCA: []byte("ca"), NodeGrace: 8 * time.Second,
			Metrics: horizontalpodautoscaler.REST(c.metrics()), DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}) {
			run(e.Loop, e.Component, rightfully(t, c, e.LoopName(), e.Account))
		}
		for _, e := range controllers.Asked() {
			run(e.Loop, e.Component, rightfully(t, c, e.LoopName(), e.Account))
		}
		for _, l := range sim.Loops() {
			run(l, "sim", c)
		}
		run(binder(), "binder", c)
		if err := sim.Nodes(ctx, c, n); err != nil {
			t.Fatal(err)
		}
		f(c)
		stop()
		wg.Wait()
	})
}

// binder stands in for the scheduler: it spreads pods over the nodes that are ready.
func binder() loop.Loop {
	return &loop.Controller[*corev1.Pod]{Name: "binder", For: kinds.Pods, Writes: []resource.Kind{kinds.Pods}, Workers: 1,
		Reconcile: func(ctx context.Context, c *loop.Ctx, p *corev1.Pod) (time.Duration, error) {
			if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
				return 0, nil
			}
			best, least := "", 1<<30
			for _, n := range resource.List(c, kinds.Nodes, "") {
				if pin := pinned(p); pin == n.Name {
					best = pin
					break
				} else if pin != "" {
					continue
				}
				if count := len(resource.Where(c, kinds.Pods, "spec.nodeName", n.Name)); len(n.Spec.Taints) == 0 && count < least {
					best, least = n.Name, count
				}
			}
			if best == "" {
				return time.Second, nil
			}
			_, err := c.Client().Call(ctx, kinds.Pods, p.Namespace, p.Name, "binding", &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node",
					Name: best}})
			return 0, err
		}}
}

// until waits, in simulated time, until ok holds; it gives up after ten simulated minutes.
func (c *cluster) until(what string, ok func(r resource.Reader) bool) {
	c.t.Helper()
	for range 6000 {
		synctest.Wait()
		if ok(c.Read()) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	for name, list := range c.loops.Records() {
		for _, r := range list {
			c.t.Logf("%s: %s is %s: %s %s", name, r.Key, r.State, r.Note, r.LastErr)
		}
	}
	for _, p := range resource.List(c.Read(), kinds.Pods, "") {
		c.t.Logf("pod %s on %q: %s", p.Name, p.Spec.NodeName, p.Status.Phase)
	}
	c.t.Fatalf("not after ten minutes: %s", what)
}

func make1[T resource.Object](c *cluster, d *resource.Def[T], obj T) T {
	c.t.Helper()
	out, err := c.Create(c.t.Context(), d, obj)
	if err != nil {
		c.t.Fatalf("create %s %s: %v", d.Plural, obj.GetName(), err)
	}
	return out.(T)
}

// edit changes an object as it is now.
func edit[T resource.Object](c *cluster, d *resource.Def[T], ns, name string, sub string, f func(T)) {
	c.t.Helper()
	for range 20 {
		cur := resource.Get(c.Read(), d, ns, name)
		next := resource.Clone(cur)
		f(next)
		if _, err := c.Update(c.t.Context(), d, next, sub); err == nil {
			return
		} else if !isConflict(err) {
			c.t.Fatalf("update %s %s: %v", d.Plural, name, err)
		}
	}
	c.t.Fatalf("update %s %s: conflicts without end", d.Plural, name)
}

func template(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "c", Image: "i:1"}}}}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func ready(r resource.Reader, label, value string) (n int) {
	for obj := range r.ByLabel(kinds.Pods, "default", label, value) {
		for _, c := range obj.(*corev1.Pod).Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && obj.GetDeletionTimestamp() == nil {
				n++
			}
		}
	}
	return n
}

func backgroundly() *metav1.DeleteOptions {
	p := metav1.DeletePropagationBackground
	return &metav1.DeleteOptions{PropagationPolicy: &p}
}

// pinned is the node that a pod of a daemon set must run on.
func pinned(p *corev1.Pod) string {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return ""
	}
	return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

// applied checks that somebody applied a part of an object, under the name that upstream's loop has.
func (c *cluster) applied(obj resource.Object, manager string) {
	c.t.Helper()
	for _, by := range obj.GetManagedFields() {
		if by.Operation == metav1.ManagedFieldsOperationApply && by.Manager == manager {
			return
		}
	}
	c.t.Errorf("%s was not applied by %s: %v", obj.GetName(), manager, obj.GetManagedFields())
}

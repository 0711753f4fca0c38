package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// faulty loses requests and answers, and takes its time.
type faulty struct {
	client.Client
	mu sync.Mutex
	r  *rand.Rand
}

func (f *faulty) dice() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.r.IntN(10)
}

func (f *faulty) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	switch f.dice() {
	case 0:
		return nil, errors.New("request lost")
	case 1:
		if _, err := f.Client.Call(ctx, k, ns, name, sub, in); err != nil {
			return nil, err
		}
		return nil, errors.New("answer lost")
	case 2:
		time.Sleep(100 * time.Millisecond)
	}
	return f.Client.Call(ctx, k, ns, name, sub, in)
}

func (f *faulty) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	if f.dice() < 3 {
		return nil, errors.New("request lost")
	}
	return f.Client.Get(ctx, k, ns, name)
}

func (f *faulty) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error {
	if f.dice() == 0 {
		return errors.New("request lost")
	}
	return f.Client.Delete(ctx, k, ns, name, opts)
}

func (f *faulty) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	switch f.dice() {
	case 0:
		return nil, errors.New("request lost")
	case 1:
		return nil, apierrors.NewConflict(k.Info().GR(), obj.GetName(), errors.New("somebody was faster"))
	}
	return f.Client.Update(ctx, k, obj, sub)
}

func (f *faulty) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	if f.dice() == 0 {
		return nil, errors.New("request lost")
	}
	return f.Client.Patch(ctx, k, ns, name, p)
}

// A rival is faster than the scheduler at the first write of a pod's status, and at the second, which is a patch.
type rival struct {
	client.Client
	pod  string
	done bool
}

func (r *rival) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	if obj.GetName() == r.pod && !r.done {
		return nil, apierrors.NewConflict(corev1.Resource("pods"), r.pod, errors.New("somebody was faster"))
	}
	return r.Client.Update(ctx, k, obj, sub)
}

func (r *rival) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	if name == r.pod && !r.done {
		r.done = true
		return nil, apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("somebody was faster"))
	}
	return r.Client.Patch(ctx, k, ns, name, p)
}

// A victim that somebody else writes at that moment is asked again, and what a pod waits for is told again.
func TestConflicts(t *testing.T) {
	for _, name := range []string{"low", "high"} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, false)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- New(Config{}).Run(ctx, loop.Env{Client: &rival{Client: w.Local, pod: name}, Log: slog.New(slog.DiscardHandler)})
			}()
			w.create(node("n1", "", ""))
			w.create(pod("low", "", "cpu=4", "priority: 1\nterminationGracePeriodSeconds: 0"))
			time.Sleep(time.Second)
			w.create(pod("high", "", "cpu=4", "priority: 2"))
			time.Sleep(time.Minute)
			synctest.Wait()
			if p := resource.Get(w.Read(), kinds.Pods, "default", "high"); p.Spec.NodeName != "n1" {
				t.Errorf("conflict at %s: %+v", name, p.Status)
			}
			cancel()
			<-done
		})
	}
}

// TestConverges lets a scheduler with a bad line work, killed and started again now and then, while pods come and
// go. In the end every pod that can has a node, and no node holds more than it has.
func TestConverges(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { converge(t, start(t, false), rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func converge(t *testing.T, w *world, r *rand.Rand) {
	bad := &faulty{Client: w.Local, r: rand.New(rand.NewPCG(r.Uint64(), 1))}
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- New(Config{Parallel: 8}).Run(ctx, loop.Env{Client: bad, Log: slog.New(slog.DiscardHandler)})
		}()
		return func() { cancel(); <-done }
	}
	stop := run()
	defer func() { stop() }()
	for i := range 6 {
		w.create(node(fmt.Sprintf("n%d", i), "zone: "+[]string{"a", "b"}[i%2], ""))
	}
	alive := map[string]bool{}
	for i := range 120 {
		switch n := r.IntN(12); {
		case n == 0:
			stop()
			stop = run()
		case n < 4 && len(alive) > 0:
			for name := range alive {
				if err := w.Delete(t.Context(), kinds.Pods, "default", name, nil); err != nil && !apierrors.IsNotFound(err) { // gone: preempted
					t.Error(err)
				}
				delete(alive, name)
				break
			}
		default:
			name := fmt.Sprintf("p%d", i)
			w.create(pod(name, "app: a", "cpu=1",
				[]string{"", "priority: 3", hardSpread("zone", 1)}[r.IntN(3)]+"\nterminationGracePeriodSeconds: 0"))
			alive[name] = true
		}
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		}
	}
	time.Sleep(time.Hour) // simulated; all retries are through
	synctest.Wait()
	checkConverged(t, w)
}

func checkConverged(t *testing.T, w *world) {
	used, waiting := map[string]int{}, 0
	for _, p := range resource.List(w.Read(), kinds.Pods, "default") {
		if p.Spec.NodeName == "" {
			waiting++
			if !refused(p) {
				t.Errorf("%s waits without a word: %+v", p.Name, p.Status)
			}
			if len(p.Spec.TopologySpreadConstraints) == 0 && full(used) < 24 && freeNode(w) {
				t.Errorf("%s waits though there is room", p.Name)
			}
			continue
		}
		used[p.Spec.NodeName]++
		if c := find(p, corev1.PodScheduled); c == nil || c.Status != corev1.ConditionTrue {
			t.Errorf("%s is bound, and says %+v", p.Name, c)
		}
	}
	for n, k := range used {
		if k > 4 {
			t.Errorf("%s holds %d pods of a cpu each", n, k)
		}
	}
	t.Logf("%d bound, %d wait", full(used), waiting)
}

func full(used map[string]int) (n int) {
	for _, k := range used {
		n += k
	}
	return n
}

// freeNode tells whether some node has room for one more.
func freeNode(w *world) bool {
	used := map[string]int{}
	for _, p := range resource.List(w.Read(), kinds.Pods, "default") {
		used[p.Spec.NodeName]++
	}
	for i := range 6 {
		if used[fmt.Sprintf("n%d", i)] < 4 {
			return true
		}
	}
	return false
}

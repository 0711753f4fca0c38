//go:build e2e

package servers

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// patience is the time for which a test waits for the servers to get somewhere.
const patience = 5 * time.Minute

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func(ctx context.Context) (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		var ok bool
		ok, last = f(ctx)
		return ok && last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v, %v", what, err, last)
	}
}

var rounds = flag.Int("rounds", 1, "how often a server is killed and another one cut off")

// Servers are killed and cut off one after the other under load. What clients were told stays true: the history is
// linearizable, every acknowledged write is in every watch, exactly once and in order, and who is cut off says so.
func TestKillAndCutOff(t *testing.T) {
	m := three(t)
	underFire(t, m, func(x, other *machine, round int) {
		x.kill()
		works(t, other, fmt.Sprint("killed-", round))
		x.start()
		other.cut()
		works(t, x, fmt.Sprint("cut-", round))
		silent(t, other)
		other.mend()
		works(t, other, fmt.Sprint("mended-", round))
	})
}

// underFire has three servers written to, read and watched while each round does harm to two of them, and holds what they said
// to what is allowed.
func underFire(t *testing.T, m []*machine, harm func(x, other *machine, round int)) {
	t.Helper()
	published(t, m[0], 3)
	loopsTold(t, m, 3)
	start, err := m[0].client.CoreV1().ConfigMaps(space).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var watchers []*watcher
	for i := range m {
		w := &watcher{machines: m, at: i, rev: start.ResourceVersion}
		watchers = append(watchers, w)
		all.Go(func() { w.follow(ctx) })
	}
	loaded, enough := context.WithCancel(ctx)
	defer enough()
	h := &history{}
	var load sync.WaitGroup
	load.Go(func() { h.load(loaded, m) })
	for round := range *rounds {
		harm(m[round%3], m[(round+1)%3], round)
	}
	enough()
	load.Wait() // nobody is told anything from here on
	agree(t, m)
	last := mark(t, m[0])
	var first []told
	for i, w := range watchers {
		events, err := w.seen(last, patience)
		must(t, err)
		if err := ordered(withBase(start, events)); err != nil {
			t.Errorf("watch %d: %v", i, err)
		}
		if first == nil {
			first = events
		} else if !slices.Equal(first, events) {
			t.Errorf("watch %d told something else than watch 0: %d and %d events", i, len(events), len(first))
		}
	}
	stop()
	all.Wait()
	if err := h.check(first); err != nil {
		t.Error(err)
	}
	allTold(t, h, first)
	t.Logf("%d operations, %d acknowledged writes, %d events", len(h.ops), len(h.acked), len(first))
}

// withBase puts what was there at the start before the events.
func withBase(list *corev1.ConfigMapList, events []told) []told {
	var base []told
	for i, cm := range list.Items {
		base = append(base, told{rev: int64(i) - int64(len(list.Items)), typ: "ADDED", name: cm.Name})
	}
	return append(base, events...)
}

// allTold checks that the events hold every acknowledged write.
func allTold(t *testing.T, h *history, events []told) {
	t.Helper()
	values := map[string]string{}
	for _, e := range events {
		if e.typ != "DELETED" {
			values[strconv.FormatInt(e.rev, 10)] = e.value
		}
	}
	for rev, value := range h.acked {
		if values[rev] != value {
			t.Errorf("the write of %s at %s was acknowledged; the watches say %q", value, rev, values[rev])
		}
	}
}

// agree waits until all servers list the same.
func agree(t *testing.T, m []*machine) {
	t.Helper()
	eventually(t, "the servers agree", func(ctx context.Context) (bool, error) {
		var said []string
		for _, x := range m {
			list, err := x.client.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			var b strings.Builder
			for _, i := range list.Items {
				fmt.Fprintln(&b, i.Name, i.ResourceVersion, i.Data["v"])
			}
			said = append(said, b.String())
		}
		return said[0] == said[1] && said[1] == said[2], nil
	})
}

// mark writes an object that comes after everything that was answered until now, and returns its revision.
func mark(t *testing.T, m *machine) (rev int64) {
	t.Helper()
	eventually(t, "the end is marked", func(ctx context.Context) (bool, error) {
		maps := m.client.CoreV1().ConfigMaps(space)
		cm, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "end"}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // by a try that was not answered
			cm, err = maps.Get(ctx, "end", metav1.GetOptions{})
		}
		if err != nil {
			return false, err
		}
		rev, err = strconv.ParseInt(cm.ResourceVersion, 10, 64)
		return err == nil, err
	})
	return rev
}

// published waits until so many servers are behind the Service kubernetes.
func published(t *testing.T, m *machine, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d servers are published", n), func(ctx context.Context) (bool, error) {
		e, err := m.client.CoreV1().Endpoints("default").Get(ctx, "kubernetes",
			metav1.GetOptions{}) //nolint:staticcheck // what pods' environment comes from
		return err == nil && len(e.Subsets) == 1 && len(e.Subsets[0].Addresses) == n, err
	})
}

// works checks that a server takes writes, and that the loops run somewhere.
func works(t *testing.T, m *machine, name string) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	d.Spec.Replicas = new(int32)
	eventually(t, "a deployment is made at "+m.name, func(ctx context.Context) (bool, error) {
		_, err := m.client.AppsV1().Deployments(space).Create(ctx, d, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // by a try that was not answered
			err = nil
		}
		return err == nil, err
	})
	eventually(t, "a loop sees to the deployment "+name, func(ctx context.Context) (bool, error) {
		d, err := m.client.AppsV1().Deployments(space).Get(ctx, name, metav1.GetOptions{})
		return err == nil && d.Status.ObservedGeneration == d.Generation, err
	})
}

// silent checks that a server that is cut off neither reads nor writes, and says so in time.
func silent(t *testing.T, m *machine) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	for what, call := range map[string]func(ctx context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := m.client.CoreV1().ConfigMaps(space).Get(ctx, "k0", metav1.GetOptions{})
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := m.client.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{})
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := m.client.CoreV1().ConfigMaps(space).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x"}},
				metav1.CreateOptions{})
			return err
		},
	} {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := call(ctx); !apierrors.IsTimeout(err) && !apierrors.IsServiceUnavailable(err) {
				t.Errorf("%s at a server that is cut off: %v", what, err)
			}
		})
	}
}

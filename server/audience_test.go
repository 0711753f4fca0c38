package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// A listener is a watch of pods that writes down what it is told.
type listener struct {
	opts metav1.ListOptions
	ns   string
	mood int // of 4 offers it refuses so many; -1: it takes none at all

	mu      sync.Mutex
	heard   []string
	offered int
}

// listen watches from the revision until ctx ends.
func (l *listener) listen(ctx context.Context, w *world, from string) error {
	r := w.ask(pods, "")
	r.Namespace = l.ns
	if l.mood >= 0 {
		r.Offer = func(events []server.Event) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.offered++; l.offered%4 < l.mood {
				return false
			}
			l.note(events)
			return true
		}
	}
	opts := l.opts
	opts.ResourceVersion = from
	return w.Watch(ctx, r, &opts, func(events []server.Event) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.note(events)
		return nil
	})
}

func (l *listener) note(events []server.Event) {
	for _, e := range events {
		if e.Type != server.Bookmark {
			l.heard = append(l.heard, fmt.Sprintf("%s %d", short(e), e.Rev))
		}
	}
}

// Watches that wait together are told what each would be told alone, in order, whatever they choose and however they take it.
func TestAudienceTellsWhatOneAloneHears(t *testing.T) {
	synctest.Test(t, audienceTells)
}

func audienceTells(t *testing.T) {
	w := start(t)
	var all []*listener
	for _, opts := range []metav1.ListOptions{
		{}, {LabelSelector: "app=a"}, {LabelSelector: "app=a", FieldSelector: "spec.nodeName=n2"},
		{FieldSelector: "spec.nodeName=n1"}, {FieldSelector: "spec.nodeName="}, {FieldSelector: "spec.nodeName!=n1"},
		{FieldSelector: "metadata.name=p3"}, {FieldSelector: "spec.nodeName=n1,metadata.name=p3"},
		{FieldSelector: "status.phase=Running"},
	} {
		opts.AllowWatchBookmarks = true
		for _, ns := range []string{"", "ns", "none"} {
			for mood := -1; mood <= 4; mood++ {
				all = append(all, &listener{opts: opts, ns: ns, mood: mood})
			}
		}
	}
	from := strconv.FormatInt(w.view.Revision(), 10)
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	for _, l := range all {
		open.Go(func() {
			if err := l.listen(ctx, w, from); err != nil {
				t.Errorf("%+v: %v", l.opts, err)
			}
		})
	}
	synctest.Wait()
	storm(t, w)
	synctest.Wait()
	cancel()
	open.Wait()
	heard := 0
	for _, l := range all {
		want := alone(t, w, l, from)
		if !slices.Equal(l.heard, want) {
			t.Fatalf("%q %q in %q, refusing %d of 4:\n%v, want\n%v", l.opts.LabelSelector, l.opts.FieldSelector, l.ns, l.mood, l.heard, want)
		}
		heard += len(want)
	}
	if heard < 1000 {
		t.Errorf("only %d events were to be heard", heard)
	}
}

// storm changes pods at random, with pauses in which watches are told how far they have come.
func storm(t *testing.T, w *world) {
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		name := "p" + strconv.Itoa(chance.IntN(6))
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": string("ab"[chance.IntN(2)])}}}
		p.Spec.NodeName = []string{"", "n1", "n2"}[chance.IntN(3)]
		if p.Status.Phase = corev1.PodPending; chance.IntN(2) == 0 {
			p.Status.Phase = corev1.PodRunning
		}
		zero := int64(0)
		if _, _, err := w.delete(pods, name, &metav1.DeleteOptions{GracePeriodSeconds: &zero}); err == nil && chance.IntN(3) == 0 {
			continue
		}
		create(w, pods, p)
		labels := fmt.Sprintf(`{"app":%q,"n":"%d"}`, string("ab"[chance.IntN(2)]), i)
		if _, err := w.merge(pods, name, `{"metadata":{"labels":`+labels+`}}`); err != nil {
			t.Fatal(err)
		}
		if i%60 == 59 {
			synctest.Wait()
			time.Sleep(time.Minute) // of the bubble: bookmarks come by
		}
	}
}

// alone is what the listener would have heard without the others: the same from the history, at a time when nobody else watches.
func alone(t *testing.T, w *world, of *listener, from string) []string {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := &listener{opts: of.opts, ns: of.ns, mood: -1}
	var done sync.WaitGroup
	done.Go(func() {
		if err := l.listen(ctx, w, from); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	synctest.Wait()
	cancel()
	done.Wait()
	return l.heard
}

// A change is told to those that it concerns, and all sit down again. The audience ends with the last of them.
func TestAudienceSitsDown(t *testing.T) { synctest.Test(t, audienceSits) }

func audienceSits(t *testing.T) {
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	told := make([]int, 100)
	for i := range told {
		open.Go(func() {
			r := w.ask(pods, "")
			err := w.Watch(ctx, r, &metav1.ListOptions{FieldSelector: "spec.nodeName=n" + strconv.Itoa(i)}, func(events []server.Event) error {
				told[i] += len(events)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n7"}}
	create(w, pods, p)
	synctest.Wait()
	if got := server.Sitting(w.Server, pods); got != len(told) {
		t.Errorf("%d watches sit and wait, want %d", got, len(told))
	}
	for i, n := range told {
		if want := map[int]int{7: 1}[i]; n != want {
			t.Errorf("the watch of n%d was told %d events, want %d", i, n, want)
		}
	}
	cancel()
	open.Wait()
	if got := server.Sitting(w.Server, pods); got != -1 {
		t.Errorf("%d watches sit when all have ended", got)
	}
}

// A choice that panics ends the watch that made it, not the process, and the others miss nothing.
func TestAudienceSurvivesAPanic(t *testing.T) { synctest.Test(t, audienceSurvives) }

func audienceSurvives(t *testing.T) {
	kind := &resource.Def[*corev1.ConfigMap]{GVK: configMaps.GVK, Plural: configMaps.Plural, Namespaced: true,
		Select: []resource.Field[*corev1.ConfigMap]{{Label: "data.n", Value: func(c *corev1.ConfigMap) string {
			if c.Name == "strange" {
				panic("a strange object")
			}
			return c.Data["n"]
		}}}}
	w := start(t, func(c *testcluster.Config) {
		c.Kinds = resource.For(nil, nil, kind)
		c.View = view.NewWith(c.Kinds, view.Config{Guard: true})
	})
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	var ended []any
	told := make([]string, 3)
	choices := []metav1.ListOptions{{FieldSelector: "data.n="}, {LabelSelector: "!none"}, {FieldSelector: "metadata.namespace=ns"}}
	for i, opts := range choices {
		open.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					ended = append(ended, i, p)
				}
			}()
			if err := w.Watch(ctx, w.ask(kind, ""), &opts, func(events []server.Event) error {
				for _, e := range events {
					told[i] += e.Entry.Object.GetName() + " "
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	for _, name := range []string{"one", "strange", "two"} {
		create(w, kind, configMap(name))
		synctest.Wait()
	}
	if fmt.Sprint(ended) != "[0 a strange object]" {
		t.Errorf("of the watches ended %v", ended)
	}
	if got := strings.Join(told, "|"); got != "one |one strange two |one strange two " {
		t.Errorf("told %q", got)
	}
	cancel()
	open.Wait()
}

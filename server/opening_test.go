package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/server"
)

// A beginning is what a watch was told until its initial events ended.
type beginning struct {
	state  map[string]string // names, and the label "n"
	parts  []*server.Part
	alone  int // events that were told to it alone
	marked int64
}

// begin watches ConfigMaps, with initial events, until these have ended.
func (w *world) begin(shares bool) *beginning {
	w.t.Helper()
	return w.beginIn("ns", shares)
}

func (w *world) beginIn(ns string, shares bool) *beginning {
	w.t.Helper()
	yes, b := true, &beginning{state: map[string]string{}}
	opts := metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks: true}
	r := w.ask(configMaps, "")
	r.Namespace = ns
	if shares {
		r.Share = func(p *server.Part) error {
			b.parts = append(b.parts, p)
			b.note(p.Events)
			return nil
		}
	}
	err := w.Watch(w.t.Context(), r, &opts, func(events []server.Event) error {
		b.alone += len(events)
		if b.note(events); b.marked != 0 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		w.t.Fatal(err)
	}
	return b
}

func (b *beginning) note(events []server.Event) {
	for _, e := range events {
		switch e.Type {
		case server.Bookmark:
			b.marked = e.Rev
		case server.Deleted:
			delete(b.state, e.Entry.Object.GetName())
		default:
			b.state[e.Entry.Object.GetName()] = e.Entry.Object.GetLabels()["n"]
		}
	}
}

// Watches that begin soon after another are told the same parts and what changed since: all of them know the state of when they began.
func TestWatchesBeginTogether(t *testing.T) { synctest.Test(t, beginTogether) }

func beginTogether(t *testing.T) {
	w := start(t)
	const n = 700
	for i := range n {
		create(w, configMaps, configMap(fmt.Sprintf("c%03d", i), "text", strings.Repeat("x", 1000)))
	}
	check := func(b *beginning, alone int) {
		t.Helper()
		want := map[string]string{}
		for obj := range w.view.Snapshot().Each(configMaps, "") {
			want[obj.GetName()] = obj.GetLabels()["n"]
		}
		if fmt.Sprint(b.state) != fmt.Sprint(want) || b.marked != w.view.Revision() || b.alone != alone {
			t.Errorf("%d objects of %d up to %d of %d, %d events alone of %d", len(b.state), len(want), b.marked, w.view.Revision(),
				b.alone, alone)
		}
	}
	first := w.begin(true)
	if check(first, 1); len(first.parts) < 2 {
		t.Errorf("%d parts", len(first.parts))
	}
	change := func(i int) {
		label := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, time.Now().UnixNano())
		if _, err := w.merge(configMaps, fmt.Sprintf("c%03d", i), label); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Microsecond)
	}
	change(3)
	if _, _, err := w.delete(configMaps, "c004", nil); err != nil {
		t.Fatal(err)
	}
	create(w, configMaps, configMap("new"))
	second := w.begin(true)
	if check(second, 4); second.parts[0] != first.parts[0] {
		t.Error("the second begins by itself")
	}
	check(w.begin(false), n+1)
	for i := range 1100 {
		change(5 + i%100)
	}
	third := w.begin(true)
	if check(third, 1); third.parts[0] == first.parts[0] {
		t.Error("the third begins with what is long over")
	}
	time.Sleep(time.Minute)
	if later := w.begin(true); later.parts[0] == third.parts[0] {
		t.Error("a minute later a watch begins with the same")
	}
}

// What is made of a part is made once, and not for one alone; it can fail.
func TestPartIsMadeOnce(t *testing.T) {
	w := start(t)
	for i := range 600 {
		create(w, configMaps, configMap(fmt.Sprint("c", i)))
	}
	p, made := w.begin(true).parts[0], 0
	as := func(key string, err error) string {
		b, got := p.As(key, func() ([]byte, error) { made++; return []byte(key), err })
		return fmt.Sprintf("%s %v", b, got)
	}
	for i, want := range []string{" <nil>", "a <nil>", "a <nil>"} {
		if got := as("a", nil); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	as("b", nil)
	if got := as("b", context.Canceled); got != "b context canceled" {
		t.Error(got)
	}
	if got := as("b", nil); got != "b <nil>" || made != 3 {
		t.Errorf("%q, made %d times", got, made)
	}
}

// A namespace with little in it is not worth sharing, however much others have.
func TestSmallNamespaceBeginsAlone(t *testing.T) {
	w := start(t)
	for i := range 600 {
		create(w, configMaps, configMap(fmt.Sprint("c", i)))
	}
	r := w.ask(configMaps, "")
	r.Namespace = "other"
	if _, err := w.Create(t.Context(), r, configMap("single")); err != nil {
		t.Fatal(err)
	}
	if b := w.beginIn("other", true); len(b.parts) > 0 || len(b.state) != 1 || b.alone != 2 {
		t.Errorf("%d parts, %d objects, %d events alone", len(b.parts), len(b.state), b.alone)
	}
}

// Who can join a beginning does not count the namespace, which is a walk through all of it: so it joins although there is less now
// than is worth a beginning.
func TestJoinsWithoutCounting(t *testing.T) { synctest.Test(t, joinWithoutCounting) }

func joinWithoutCounting(t *testing.T) {
	w := start(t)
	for i := range 510 {
		create(w, configMaps, configMap(fmt.Sprintf("c%03d", i)))
	}
	first := w.begin(true)
	for i := range 20 {
		if _, _, err := w.delete(configMaps, fmt.Sprintf("c%03d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	second := w.begin(true)
	if len(second.parts) == 0 || second.parts[0] != first.parts[0] || len(second.state) != 490 || second.alone != 21 {
		t.Errorf("%d parts, %d objects, %d events alone", len(second.parts), len(second.state), second.alone)
	}
	time.Sleep(time.Minute)
	if later := w.begin(true); len(later.parts) > 0 || len(later.state) != 490 {
		t.Errorf("a minute later: %d parts, %d objects", len(later.parts), len(later.state))
	}
}

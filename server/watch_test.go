package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

var errEnough = errors.New("enough")

// watch collects the first n events (0: until the watch ends), in short: type, name and the label "n".
func (w *world) watch(n int, opts metav1.ListOptions) ([]string, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
	defer cancel()
	var got []string
	err := w.Watch(ctx, w.ask(configMaps, ""), &opts, func(events []server.Event) error {
		for _, e := range events {
			got = append(got, short(e))
			if n > 0 && len(got) == n {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return got, err
}

func short(e server.Event) string {
	if e.Type == server.Bookmark {
		if e.Initial {
			return "BOOKMARK initial"
		}
		return "BOOKMARK"
	}
	if rv := e.Entry.Object.GetResourceVersion(); rv != strconv.FormatInt(e.Rev, 10) {
		return fmt.Sprintf("%s of %d carries %s", e.Type, e.Rev, rv)
	}
	return string(e.Type) + " " + e.Entry.Object.GetName() + e.Entry.Object.GetLabels()["n"]
}

func TestWatchSelectorTransitions(t *testing.T) {
	w := start(t)
	from := strconv.FormatInt(w.view.Revision(), 10)
	c := configMap("a")
	c.Labels = map[string]string{"in": "yes", "n": "1"}
	create(w, configMaps, c)
	for _, labels := range []string{`{"n":"2"}`, `{"in":"no","n":"3"}`, `{"n":"4"}`, `{"in":"yes","n":"5"}`} {
		if _, err := w.merge(configMaps, "a", `{"metadata":{"labels":`+labels+`}}`); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.delete(configMaps, "a", nil); err != nil {
		t.Fatal(err)
	}
	create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"in": "yes"}}})
	got, err := w.watch(5, metav1.ListOptions{ResourceVersion: from, LabelSelector: "in=yes"})
	if want := "[ADDED a1 MODIFIED a2 DELETED a2 ADDED a5 DELETED a5]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("by label: %v, %v; want %s", got, err, want)
	}
	got, err = w.watch(6, metav1.ListOptions{ResourceVersion: from, FieldSelector: "metadata.name=a"})
	if want := "[ADDED a1 MODIFIED a2 MODIFIED a3 MODIFIED a4 MODIFIED a5 DELETED a5]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("by name: %v, %v; want %s", got, err, want)
	}
}

func TestWatchStarts(t *testing.T) { synctest.Test(t, watchStarts) }

func watchStarts(t *testing.T) {
	w := start(t)
	for _, n := range []string{"a", "b", "c"} {
		create(w, configMaps, configMap(n))
	}
	rv := w.get(configMaps, "b").GetResourceVersion()
	yes, no, second := true, false, int64(1)
	const newer = metav1.ResourceVersionMatchNotOlderThan
	for _, x := range []struct {
		name string
		opts metav1.ListOptions
		n    int
		want string
	}{
		{"from now", metav1.ListOptions{}, 3, "[ADDED a ADDED b ADDED c]"},
		{"from any revision", metav1.ListOptions{ResourceVersion: "0"}, 3, "[ADDED a ADDED b ADDED c]"},
		{"from a revision", metav1.ListOptions{ResourceVersion: rv}, 1, "[ADDED c]"},
		{"with initial events", metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: newer, AllowWatchBookmarks: true}, 4,
			"[ADDED a ADDED b ADDED c BOOKMARK initial]"},
		{"with initial events from a revision",
			metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: newer, AllowWatchBookmarks: true, ResourceVersion: rv}, 4,
			"[ADDED a ADDED b ADDED c BOOKMARK initial]"},
		{"with initial events, none of which fit",
			metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: newer, AllowWatchBookmarks: true, LabelSelector: "none=x"}, 1,
			"[BOOKMARK initial]"},
		{"without initial events",
			metav1.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: newer, TimeoutSeconds: &second}, 0, "[]"},
		{"from the future", metav1.ListOptions{ResourceVersion: "99999999", TimeoutSeconds: &second}, 0, "[]"},
	} {
		if got, err := w.watch(x.n, x.opts); err != nil || fmt.Sprint(got) != x.want {
			t.Errorf("%s: %+v: %v, %v; want %s", x.name, x.opts, got, err, x.want)
		}
	}
	for _, x := range []struct {
		name string
		opts metav1.ListOptions
		want string
	}{
		{"continue", metav1.ListOptions{Continue: "x"}, "Invalid FieldValueForbidden resourceVersionMatch"},
		{"continue from any revision",
			metav1.ListOptions{Continue: "x", ResourceVersion: "0"}, "Invalid FieldValueForbidden resourceVersionMatch"},
		{"initial events without a match",
			metav1.ListOptions{SendInitialEvents: &yes}, "Invalid FieldValueForbidden resourceVersionMatch"},
		{"a match without initial events",
			metav1.ListOptions{ResourceVersionMatch: newer}, "Invalid FieldValueForbidden resourceVersionMatch"},
		{"revision that is no number", metav1.ListOptions{ResourceVersion: "abc"}, "500"},
		{"unknown field", metav1.ListOptions{FieldSelector: "a.b=c"}, "BadRequest"},
	} {
		if _, err := w.watch(1, x.opts); reason(err) != x.want {
			t.Errorf("%s: %+v: %v, want %s", x.name, x.opts, err, x.want)
		}
	}
}

func TestWatchExpires(t *testing.T) {
	w := start(t, func(c *testcluster.Config) { c.View = view.NewWith(c.Kinds, view.Config{Changes: 5}) })
	create(w, configMaps, configMap("a"))
	rv := w.get(configMaps, "a").GetResourceVersion()
	for i := range 20 {
		create(w, configMaps, configMap(fmt.Sprint("b", i)))
	}
	if _, err := w.watch(1, metav1.ListOptions{ResourceVersion: rv}); reason(err) != "Expired" {
		t.Errorf("from the past: %v", err)
	}
	slow := false
	err := w.Watch(t.Context(), w.ask(configMaps, ""), &metav1.ListOptions{}, func(events []server.Event) error {
		if !slow && len(events) == 0 {
			slow = true
			for i := range 20 {
				create(w, configMaps, configMap(fmt.Sprint("c", i)))
			}
		}
		return nil
	})
	if reason(err) != "Expired" {
		t.Errorf("too slow: %v", err)
	}
}

func TestWatchersSeeOneOrder(t *testing.T) {
	w := start(t)
	const watchers, writes = 10, 200
	results := make(chan string, watchers)
	for range watchers {
		go func() {
			got, err := w.watch(writes, metav1.ListOptions{ResourceVersion: "1"})
			if err != nil {
				got = []string{err.Error()}
			}
			results <- strings.Join(got, ",")
		}()
	}
	want := "ADDED a"
	create(w, configMaps, configMap("a"))
	for i := range writes - 1 {
		if _, err := w.merge(configMaps, "a", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i)); err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf(",MODIFIED a%d", i)
	}
	for range watchers {
		if got := <-results; got != want {
			t.Errorf("got %s", got)
		}
	}
}

func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		create(w, configMaps, configMap("a"))
		begin := time.Now()
		var marks []time.Duration
		var revs []int64
		var ended time.Duration
		done := make(chan error, 1)
		go func() {
			long := int64(200)
			err := w.Watch(t.Context(), w.ask(configMaps, ""), &metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: &long},
				func(events []server.Event) error {
					for _, e := range events {
						if e.Type == server.Bookmark {
							marks, revs = append(marks, time.Since(begin)), append(revs, e.Rev)
						}
					}
					return nil
				})
			ended = time.Since(begin)
			done <- err
		}()
		for range 199 {
			time.Sleep(time.Second) // simulated
			create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p"}})
		}
		if err := <-done; err != nil || ended != 200*time.Second {
			t.Errorf("ended after %v: %v", ended, err)
		}
		if len(marks) < 4 || len(marks) > 6 {
			t.Fatalf("bookmarks after %v", marks)
		}
		for i, m := range marks {
			if i == 0 {
				continue
			}
			news := revs[i] > revs[i-1] || i == len(marks)-1 && revs[i] == revs[i-1] // the last one may come soon after another
			if m-marks[i-1] > time.Minute || !news {
				t.Errorf("bookmarks after %v of %v", marks, revs)
			}
		}
		if last := marks[len(marks)-1]; 200*time.Second-last > 3*time.Second {
			t.Errorf("no bookmark before the end: %v", marks)
		}
	})
}

// Before it ends, a watch says once more how far it came, when that is further than where it began.
func TestLastBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		create(w, configMaps, configMap("a"))
		for name, busy := range map[string]bool{"busy": true, "idle": false} {
			var told []string
			done := make(chan error, 1)
			go func() {
				short := int64(4)
				done <- w.Watch(t.Context(), w.ask(configMaps, ""), &metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: &short},
					func(events []server.Event) error {
						for _, e := range events {
							told = append(told, string(e.Type))
						}
						return nil
					})
			}()
			synctest.Wait()
			want := []string{"ADDED", "BOOKMARK"} // where the present state ends
			if busy {
				create(w, configMaps, configMap("b"))
				w.Delete(t.Context(), w.ask(configMaps, "b"), nil)
				want = append(want, "ADDED", "DELETED", "BOOKMARK")
			}
			if err := <-done; err != nil || !slices.Equal(told, want) {
				t.Errorf("%s: %v, %v", name, told, err)
			}
		}
	})
}

func TestEntriesAreNotChanged(t *testing.T) {
	w := start(t)
	old := create(w, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{NodeName: "n"}})
	copy := resource.Clone(old)
	if _, err := w.merge(pods, "p", `{"metadata":{"labels":{"a":"c"}}}`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.delete(pods, "p", nil); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(old) != fmt.Sprint(copy) {
		t.Error("an object that was handed out changed")
	}
}

// A watch for less than no time tells what there is and is over.
func TestWatchOfNegativeLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		create(w, configMaps, configMap("a"))
		told, began, past := 0, time.Now(), int64(-5)
		err := w.Watch(t.Context(), w.ask(configMaps, ""), &metav1.ListOptions{TimeoutSeconds: &past}, func(events []server.Event) error {
			told += len(events)
			return nil
		})
		if took := time.Since(began); err != nil || told != 1 || took != 0 {
			t.Errorf("%d events, %v, after %v", told, err, took)
		}
	})
}

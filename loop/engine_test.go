package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

type controller = loop.Controller[*corev1.ConfigMap]

var writesMaps = []resource.Kind{kinds.ConfigMaps}

// pass lets simulated time pass, and everything that is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOneRunPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var mu sync.Mutex
		running, most, runs := map[string]int{}, 0, 0
		run(t, f, &controller{Workers: 8, Reconcile: func(_ context.Context, _ *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
			mu.Lock()
			running[cm.Name]++
			most, runs = max(most, running[cm.Name]), runs+1
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running[cm.Name]--
			mu.Unlock()
			return 0, nil
		}})
		f.put("a")
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			f.put("a")
			f.put("b")
		}
		pass(time.Minute)
		if most != 1 {
			t.Errorf("a key ran %d times at once", most)
		}
		if runs < 6 || runs > 12 {
			t.Errorf("%d runs for two keys woken for three seconds by runs of one second", runs)
		}
	})
}

// TestFindComesFirst: what Find learns of the cluster is known before a key is reconciled.
func TestFindComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put("a")
		var found atomic.Bool
		var early, runs atomic.Int32
		run(t, f, &controller{
			Find: func(resource.Reader, func(ns, name string)) {
				time.Sleep(time.Second)
				found.Store(true)
			},
			Reconcile: func(context.Context, *loop.Ctx, *corev1.ConfigMap) (time.Duration, error) {
				if runs.Add(1); !found.Load() {
					early.Add(1)
				}
				return 0, nil
			}})
		pass(time.Minute)
		if early.Load() > 0 || runs.Load() == 0 {
			t.Errorf("%d of %d passes were before Find had looked", early.Load(), runs.Load())
		}
	})
}

func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		creates := 0
		w := run(t, f, &controller{Writes: writesMaps,
			Reconcile: func(ctx context.Context, c *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
				if cm.Name != "owner" || resource.Get(c, kinds.ConfigMaps, "", "child") != nil {
					return 0, nil
				}
				creates++
				f.setLag(true)
				_, err := c.Create(ctx, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}})
				return time.Millisecond, err // look again at once
			}})
		f.put("owner")
		pass(time.Minute)
		if rec, _ := w.Record("test", key("owner")); rec.State != "fenced" || creates != 1 {
			t.Fatalf("with a view that lags: %s, %d creates", rec.State, creates)
		}
		f.setLag(false)
		pass(time.Minute)
		if rec, _ := w.Record("test", key("owner")); rec.State != "resting" || creates != 1 {
			t.Errorf("with a view that caught up: %s, %d creates", rec.State, creates)
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var at []time.Time
		var heal atomic.Bool
		others := 0
		w := run(t, f, &controller{Workers: 1, Reconcile: func(_ context.Context, _ *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
			if cm.Name != "bad" {
				others++
				return 0, nil
			}
			healed := heal.Load() // before the write: the test has read what was written until then
			at = append(at, time.Now())
			if healed {
				return 0, nil
			}
			return 0, errBoom
		}})
		f.put("bad")
		f.put("good")
		pass(time.Hour)
		if others != 1 {
			t.Errorf("the good key ran %d times", others)
		}
		want := 10 * time.Millisecond
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < want*4/5 || d > want*6/5 {
				t.Errorf("pause %d is %v, want %v give or take a fifth", i, d, want)
			}
			want = min(2*want, 5*time.Minute)
		}
		if len(at) < 20 || len(at) > 35 {
			t.Errorf("%d tries in an hour", len(at))
		}
		rec, _ := w.Record("test", key("bad"))
		if rec.Fails != len(at) || rec.LastErr != "boom" || rec.State != "waiting" || rec.Next.IsZero() || rec.FirstFail.After(rec.LastFail) {
			t.Errorf("record %+v", rec)
		}
		heal.Store(true)
		pass(10 * time.Minute)
		if rec, _ := w.Record("test", key("bad")); rec.Fails != 0 || rec.LastErr != "" || rec.State != "resting" {
			t.Errorf("healed: %+v", rec)
		}
	})
}

func TestOwnWritesDoNotSpinAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		runs := 0
		run(t, f, &controller{Writes: writesMaps, Reconcile: func(ctx context.Context, c *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
			runs++
			if err := c.Update(ctx, kinds.ConfigMaps, cm); err != nil {
				return 0, err
			}
			return 0, errBoom
		}})
		f.put("a")
		pass(time.Minute)
		if runs > 20 {
			t.Errorf("%d runs in a minute: its own writes cut its pauses short", runs)
		}
	})
}

func TestUndeclaredWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var got error
		run(t, f, &controller{Reconcile: func(ctx context.Context, c *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
			got = c.Update(ctx, kinds.ConfigMaps, cm)
			return 0, nil
		}})
		f.put("a")
		synctest.Wait()
		if got == nil || !strings.Contains(got.Error(), "did not declare") {
			t.Errorf("the write gave %v", got)
		}
	})
}

// TestDeleteMeetsAConflict has a deletion be refused: it has happened only if the object is not there any more.
func TestDeleteMeetsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.refuse = apierrors.NewConflict(kinds.ConfigMaps.Info().GR(), "a", errBoom)
		var same, other error
		run(t, f, &controller{Writes: writesMaps, Reconcile: func(ctx context.Context, c *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
			same = c.Delete(ctx, kinds.ConfigMaps, cm)
			gone := cm.DeepCopy()
			gone.UID = "of one that is gone"
			other = c.Delete(ctx, kinds.ConfigMaps, gone)
			return 0, nil
		}})
		f.put("a")
		pass(time.Second)
		if !apierrors.IsConflict(same) || other != nil {
			t.Errorf("others were faster: %v; a namesake took its place: %v", same, other)
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		good := 0
		w := run(t, f, &controller{Workers: 1, Reconcile: func(_ context.Context, _ *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
			if cm.Name == "bad" {
				panic("this object is bad")
			}
			good++
			return 0, nil
		}})
		f.put("bad")
		f.put("good")
		pass(time.Second)
		if rec, _ := w.Record("test", key("bad")); good != 1 || !strings.Contains(rec.LastErr, "panic") {
			t.Errorf("the good key ran %d times; the bad one says %q", good, rec.LastErr)
		}
	})
}

func TestAgainAndNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		runs := 0
		w := run(t, f, &controller{Reconcile: func(_ context.Context, c *loop.Ctx, _ *corev1.ConfigMap) (time.Duration, error) {
			runs++
			c.Waiting("the %s", "moon")
			return time.Minute, nil
		}})
		f.put("a")
		pass(10*time.Minute + time.Second)
		if runs != 11 {
			t.Errorf("%d runs in ten minutes", runs)
		}
		rec, _ := w.Record("test", key("a"))
		if rec.Note != "the moon" || rec.Fails != 0 || len(w.Records()["test"]) != 1 {
			t.Errorf("record %+v", rec)
		}
		f.put("a")
		synctest.Wait()
		if runs != 12 {
			t.Error("a change does not cut a wait short")
		}
		if s := w.Stats()[0]; s.Name != "test" || s.Keys != 1 || s.Done != 12 || s.Waiting != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		runs := 0
		run(t, f, &controller{Rest: 100 * time.Millisecond,
			Reconcile: func(context.Context, *loop.Ctx, *corev1.ConfigMap) (time.Duration, error) {
				runs++
				return 0, nil
			}})
		f.put("a")
		synctest.Wait()
		if runs != 1 {
			t.Fatalf("%d runs: the first change is looked at at once", runs)
		}
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			f.put("a")
		}
		pass(time.Second)
		if runs < 9 || runs > 12 {
			t.Errorf("%d runs for a second of changes", runs)
		}
	})
}

func TestLostFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var mu sync.Mutex
		var gone []string
		runs := map[string]int{}
		run(t, f, &controller{
			Reconcile: func(_ context.Context, _ *loop.Ctx, cm *corev1.ConfigMap) (time.Duration, error) {
				mu.Lock()
				defer mu.Unlock()
				runs[cm.Name]++
				return 0, nil
			},
			Gone: func(_ context.Context, _ *loop.Ctx, k loop.Key) (time.Duration, error) {
				gone = append(gone, k.Name)
				return 0, nil
			}})
		f.put("a")
		f.put("b")
		synctest.Wait()
		f.loseFeeds(func() { f.write("a", nil); f.put("c") })
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(gone) != 1 || gone[0] != "a" || runs["b"] < 2 || runs["c"] != 1 {
			t.Errorf("gone %v, runs %v", gone, runs)
		}
	})
}

func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		runs := 0
		run(t, f, &controller{Reconcile: func(context.Context, *loop.Ctx, *corev1.ConfigMap) (time.Duration, error) {
			runs++
			return 0, nil
		}}, func(e *loop.Env) { e.Resync = time.Hour })
		f.put("a")
		pass(time.Hour + 7*time.Minute)
		if runs != 2 {
			t.Errorf("%d runs, want one at the start and one resync", runs)
		}
	})
}

func TestSkipAndPokes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		runs, pokes := 0, loop.NewExternalWakes()
		pokes.Wake(key("a"), "too early")
		w := run(t, f, &controller{ExternalWakes: pokes, Skip: func(cm *corev1.ConfigMap) bool { return cm.Data["skip"] != "" },
			Reconcile: func(context.Context, *loop.Ctx, *corev1.ConfigMap) (time.Duration, error) {
				runs++
				return 0, nil
			}})
		f.put("a")
		f.put("s", "skip", "1")
		synctest.Wait()
		pokes.Wake(key("a"), "a bell rang")
		synctest.Wait()
		rec, _ := w.Record("test", key("a"))
		if runs != 2 || rec.Causes[len(rec.Causes)-1].Why != "a bell rang" {
			t.Errorf("%d runs, causes %v", runs, rec.Causes)
		}
	})
}

// TestGone: the end of an object that is skipped wakes nobody, unless the loop asks for it.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var mu sync.Mutex // passes of different keys run at once
		var gone, asked []string
		note := func(to *[]string) func(context.Context, *loop.Ctx, loop.Key) (time.Duration, error) {
			return func(_ context.Context, _ *loop.Ctx, k loop.Key) (time.Duration, error) {
				mu.Lock()
				defer mu.Unlock()
				*to = append(*to, k.Name)
				return 0, nil
			}
		}
		skip := func(cm *corev1.ConfigMap) bool { return cm.Data["skip"] != "" }
		done := func(context.Context, *loop.Ctx, *corev1.ConfigMap) (time.Duration, error) { return 0, nil }
		run(t, f, &controller{Skip: skip, Reconcile: done, Gone: note(&gone)})
		run(t, f, &controller{Skip: skip, Reconcile: done, Gone: note(&asked), Wake: []loop.Wake{loop.Deleted(kinds.ConfigMaps)}})
		f.put("a")
		f.put("s", "skip", "1")
		synctest.Wait()
		for _, name := range []string{"a", "s"} {
			if err := f.Delete(t.Context(), kinds.ConfigMaps, "", name, nil); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if slices.Sort(asked); !slices.Equal(gone, []string{"a"}) || !slices.Equal(asked, []string{"a", "s"}) {
			t.Errorf("gone %v, and where it was asked for %v", gone, asked)
		}
	})
}

// TestGoneIsFenced: a key whose object is gone is remembered until the view holds what was written for it, and looked at once more then.
func TestGoneIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, bells := newFake(), loop.NewExternalWakes()
		looks, creates := 0, 0
		done := func(context.Context, *loop.Ctx, *corev1.ConfigMap) (time.Duration, error) { return 0, nil }
		w := run(t, f, &controller{Writes: writesMaps, ExternalWakes: bells, Reconcile: done,
			Gone: func(ctx context.Context, c *loop.Ctx, k loop.Key) (time.Duration, error) {
				if k.Name != "owner" {
					return 0, nil
				}
				looks++
				if resource.Get(c, kinds.ConfigMaps, "", "child") != nil {
					return 0, nil
				}
				creates++
				f.setLag(true)
				_, err := c.Create(ctx, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}})
				return 0, err
			}})
		bells.Wake(key("owner"), "its object went")
		pass(time.Minute)
		bells.Wake(key("owner"), "a bell rang")
		pass(time.Minute)
		if rec, _ := w.Record("test", key("owner")); rec.State != "fenced" || creates != 1 {
			t.Errorf("with a view that lags: %s, %d creates", rec.State, creates)
		}
		f.setLag(false)
		pass(time.Minute)
		if _, known := w.Record("test", key("owner")); known || looks != 2 || creates != 1 {
			t.Errorf("with a view that caught up: known %v, %d looks, %d creates", known, looks, creates)
		}
	})
}

// TestLone: a loop with one key looks when it starts and when it is woken, at objects of its kind never, and also when one has the
// name of the key.
func TestLone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.put("everything")
		var looked []string
		changed := func(c client.Change, _ resource.Reader, wake func(ns, name string)) {
			if c.Object().GetName() == "it" {
				wake("", "everything")
			}
		}
		run(t, f, &controller{Lone: "everything", Wake: []loop.Wake{{Kind: kinds.ConfigMaps, Keys: changed}},
			Gone: func(_ context.Context, _ *loop.Ctx, k loop.Key) (time.Duration, error) {
				looked = append(looked, k.Name)
				return 0, nil
			}})
		synctest.Wait()
		f.put("another")
		synctest.Wait()
		f.put("it")
		synctest.Wait()
		if !slices.Equal(looked, []string{"everything", "everything"}) {
			t.Errorf("looked at %q, want at the one key twice", looked)
		}
	})
}

// TestLoneIsRemembered: that no object stands behind the one key does not make the loop forget, after each look, how long it has to rest
// and which of its writes it has to see first.
func TestLoneIsRemembered(t *testing.T) {
	changed := func(_ client.Change, _ resource.Reader, wake func(ns, name string)) { wake("", "everything") }
	type look = func(context.Context, *loop.Ctx, loop.Key) (time.Duration, error)
	lone := func(bells *loop.ExternalWakes, rest time.Duration, look look) *controller {
		return &controller{Lone: "everything", Rest: rest, Writes: writesMaps, Gone: look, ExternalWakes: bells,
			Wake: []loop.Wake{{Kind: kinds.ConfigMaps, Keys: changed}}}
	}
	t.Run("rest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			looks := 0
			run(t, f, lone(nil, 100*time.Millisecond, func(context.Context, *loop.Ctx, loop.Key) (time.Duration, error) {
				looks++
				return 0, nil
			}))
			for range 100 {
				time.Sleep(10 * time.Millisecond)
				f.put("a")
			}
			pass(time.Second)
			if looks < 9 || looks > 12 {
				t.Errorf("%d looks in a second of changes", looks)
			}
		})
	})
	t.Run("fence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, bells := newFake(), loop.NewExternalWakes()
			creates := 0
			w := run(t, f, lone(bells, 0, func(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
				if resource.Get(c, kinds.ConfigMaps, "", "child") != nil {
					return 0, nil
				}
				creates++
				f.setLag(true)
				_, err := c.Create(ctx, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}})
				return 0, err
			}))
			synctest.Wait()
			bells.Wake(key("everything"), "a bell rang")
			pass(time.Minute)
			if creates != 1 {
				t.Errorf("%d creates with a view that lags", creates)
			}
			f.setLag(false)
			pass(time.Minute)
			if rec, _ := w.Record("test", key("everything")); rec.State != "resting" || creates != 1 {
				t.Errorf("with a view that caught up: %s, %d creates", rec.State, creates)
			}
		})
	})
}

func TestAll(t *testing.T) {
	var calls atomic.Int64
	done, err := loop.All(100, func(i int) error {
		calls.Add(1)
		if i%2 == 0 {
			return fmt.Errorf("%d: %w", i, errBoom)
		}
		return nil
	})
	if done != 50 || calls.Load() != 100 || !errors.Is(err, errBoom) {
		t.Errorf("%d done, %d calls, %v", done, calls.Load(), err)
	}
	if n := strings.Count(err.Error(), "\n"); n != 7 {
		t.Errorf("%d errors are told: %v", n+1, err)
	}
	if done, err = loop.All(2, func(i int) error {
		if i == 0 {
			panic("oh")
		}
		return nil
	}); done != 1 || err == nil || !strings.Contains(err.Error(), "panic: oh") {
		t.Errorf("a panic: %d done, %v", done, err)
	}
}

func TestBatch(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	done, err := loop.Batch(100, func(i int) error {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if i == 0 {
			return errBoom
		}
		return nil
	})
	if done != 0 || err != errBoom || calls != 1 {
		t.Errorf("a refusal at the start: %d done, %d calls, %v", done, calls, err)
	}
	if _, err := loop.Batch(1, func(int) error { panic("oh") }); err == nil || !strings.Contains(err.Error(), "panic: oh") {
		t.Errorf("a panic: %v", err)
	}
	if done, err := loop.Batch(1000, func(int) error { return nil }); done != 1000 || err != nil {
		t.Errorf("%d done, %v", done, err)
	}
}

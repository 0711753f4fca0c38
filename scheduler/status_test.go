package scheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A status is written to the pod as it is, whether or not that is what the scheduler has seen, and only to that pod.
func TestStatusOfAChangedPod(t *testing.T) {
	w := start(t, false)
	w.create(pod("a", "", "cpu=1", ""))
	seen := resource.Get(w.Read(), kinds.Pods, "default", "a")
	status := &statusWriter{r: &runner{env: loop.Env{Client: w.Local}}}
	node, none := "n1", ""
	why := func(text string) *corev1.PodCondition {
		return condition(seen, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, text, time.Unix(1_700_000_000, 0))
	}
	for _, change := range []statusChange{
		{condition: why("first"), nominated: &node},
		{condition: why("then")},
		{nominated: &none},
	} {
		before := resource.Get(w.Read(), kinds.Pods, "default", "a")
		want := change.apply(before).Status
		if _, err := w.Patch(t.Context(), kinds.Pods, "default", "a", client.Patch{Type: types.MergePatchType,
			Data: []byte(`{"metadata":{"labels":{"changed":"` + before.ResourceVersion + `"}}}`)}); err != nil {
			t.Fatal(err)
		}
		if _, err := status.write(t.Context(), seen, change); err != nil {
			t.Fatal(err)
		}
		got := resource.Get(w.Read(), kinds.Pods, "default", "a")
		if !equality.Semantic.DeepEqual(got.Status, want) || got.Labels["changed"] != before.ResourceVersion {
			t.Errorf("%+v: %+v, want %+v", got.Labels, got.Status, want)
		}
	}
	if err := w.Delete(t.Context(), kinds.Pods, "default", "a", nil); err != nil {
		t.Fatal(err)
	}
	w.create(pod("a", "", "cpu=1", ""))
	if _, err := status.write(t.Context(), seen, statusChange{nominated: &node}); err == nil {
		t.Error("another pod of that name got the status")
	}
}

// TestStatusIsSaidAgain: what others take out of a pod's status, or change, is written anew at the next look, and once.
func TestStatusIsSaidAgain(t *testing.T) {
	for name, status := range map[string]string{
		"gone":           `{"conditions":[{"type":"PodScheduled","$patch":"delete"}]}`,
		"in other words": `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Older","message":"as it was"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, true)
				w.create(pod("a", "", "cpu=1", ""))
				before := w.until("a", refused)
				_, err := w.Patch(t.Context(), kinds.Pods, "default", "a", client.Patch{Type: types.StrategicMergePatchType, Sub: "status",
					Data: []byte(`{"status":` + status + `}`)})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				got := resource.Get(w.Read(), kinds.Pods, "default", "a")
				if says(got) != says(before) {
					t.Fatalf("it says %q, before %q", says(got), says(before))
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if last := resource.Get(w.Read(), kinds.Pods, "default", "a"); last.ResourceVersion != got.ResourceVersion {
					t.Errorf("it was written again: %+v", last.Status)
				}
			})
		})
	}
}

// TestTakenAwayUnseen: what was said is said again also if the news of it comes together with that of its loss, or before the write ends;
// not because of news from before the write.
func TestTakenAwayUnseen(t *testing.T) {
	seen := func(rev, text string) *corev1.Pod {
		p := pod("a", "", "cpu=1", "")
		p.ResourceVersion = rev
		if text != "" {
			p.Status.Conditions = []corev1.PodCondition{*condition(p, corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", text, time.Now())}
		}
		return p
	}
	saying := says(seen("8", "no room"))
	for name, tt := range map[string]struct {
		before, after *corev1.Pod // the end of the write at revision 8; nil: no news
		again         bool
	}{
		"at once":        {after: seen("9", ""), again: true},
		"before its end": {before: seen("9", ""), again: true},
		"one by one":     {before: seen("8", "no room"), after: seen("9", ""), again: true},
		"late":           {before: seen("7", ""), after: seen("7", "")},
		"there":          {before: seen("7", ""), after: seen("9", "no room")},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{}
			tk := &task{pod: seen("6", ""), lastStatus: saying, statusInFlight: true}
			if tt.before != nil {
				r.update(tk, tt.before)
			}
			(&statusWriter{r: r}).written(tk, saying, 8, nil)
			if tt.after != nil {
				r.update(tk, tt.after)
			}
			if again := tk.lastStatus == ""; again != tt.again {
				t.Errorf("said again: %v, want %v", again, tt.again)
			}
		})
	}
}

// TestAllThatAreAlikeAreTold: what keeps pods from running is told of each of them as it is now, not of the first alone.
func TestAllThatAreAlikeAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w.create(pod(name, "", "cpu=100", ""))
			w.until(name, refused)
		}
		w.create(node("n", "", ""))
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		for _, name := range names {
			if said := says(resource.Get(w.Read(), kinds.Pods, "default", name)); !strings.Contains(said, "0/1 nodes are available") {
				t.Errorf("pod %s says %q", name, said)
			}
		}
	})
}

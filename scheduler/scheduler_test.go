package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func TestBindsAndWakes(t *testing.T) {
	w := start(t, true)
	w.create(pod("p", "a: b", "cpu=3", ""))
	p := w.until("p", refused)
	if got := find(p, corev1.PodScheduled).Message; got != "no nodes available to schedule pods" {
		t.Errorf("message %q", got)
	}
	w.create(node("n1", "", ""))
	if p := w.until("p", bound); p.Spec.NodeName != "n1" {
		t.Errorf("on %s", p.Spec.NodeName)
	}
	w.create(pod("q", "a: b", "cpu=3", ""))
	q := w.until("q", refused)
	want := "0/1 nodes are available: 1 Insufficient cpu. " +
		"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	if got := find(q, corev1.PodScheduled).Message; got != want {
		t.Errorf("message %q", got)
	}
	w.create(pod("lost", "", "", "volumes: [{name: v, persistentVolumeClaim: {claimName: none}}]"))
	want = `0/1 nodes are available: persistentvolumeclaim "none" not found. not found`
	if got := find(w.until("lost", refused), corev1.PodScheduled).Message; got != want {
		t.Errorf("message %q", got)
	}
	zero := int64(0)
	if err := w.Delete(t.Context(), kinds.Pods, "default", "p", &metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	w.until("q", bound)
}

func TestOthersAndGates(t *testing.T) {
	w := start(t, true)
	w.create(node("n1", "", ""))
	other := pod("other", "", "", "")
	other.Spec.SchedulerName = "mine"
	w.create(other)
	w.create(pod("gated", "", "", "schedulingGates: [{name: g}]"))
	w.create(pod("p", "", "", ""))
	w.until("p", bound)
	for _, name := range []string{"other", "gated"} {
		if w.until(name, func(*corev1.Pod) bool { return true }).Spec.NodeName != "" {
			t.Errorf("%s is bound", name)
		}
	}
	_, err := w.Patch(t.Context(), kinds.Pods, "default", "gated",
		client.Patch{Type: "application/merge-patch+json", Data: []byte(`{"spec":{"schedulingGates":null}}`)})
	if err != nil {
		t.Fatal(err)
	}
	w.until("gated", bound)
}

func TestPreempts(t *testing.T) {
	w := start(t, true)
	w.create(node("n1", "", ""))
	low := pod("low", "", "cpu=3", "priority: 1\nterminationGracePeriodSeconds: 0")
	w.create(low)
	w.until("low", bound)
	w.create(pod("polite", "", "cpu=3", "priority: 5\npreemptionPolicy: Never"))
	got := find(w.until("polite", refused), corev1.PodScheduled).Message
	if want := "0/1 nodes are available: 1 Insufficient cpu. " +
		"preemption: not eligible due to preemptionPolicy=Never."; got != want {
		t.Errorf("message %q", got)
	}
	w.create(pod("high", "", "cpu=3", "priority: 10"))
	if p := w.until("high", bound); p.Status.NominatedNodeName == "x" {
		t.Error(p)
	}
	told := map[string]float64{}
	for _, s := range w.figures.All() {
		if len(s.Labels) == 0 || s.Labels[0] == "PostFilter" || s.Labels[0] == corev1.DefaultSchedulerName || s.Labels[0] == "active" {
			told[strings.Join(append([]string{s.Of.Name}, s.Labels...), " ")] = float64(s.Count())
		}
	}
	for name, least := range map[string]float64{"scheduler_preemption_victims": 1, "scheduler_pod_scheduling_attempts": 2,
		"scheduler_preemption_attempts_total":                                                             2, // of polite, and of high
		"scheduler_framework_extension_point_duration_seconds PostFilter Success default-scheduler":       1,
		"scheduler_framework_extension_point_duration_seconds PostFilter Unschedulable default-scheduler": 1,
		"scheduler_schedule_attempts_total default-scheduler scheduled":                                   2,
		"scheduler_schedule_attempts_total default-scheduler unschedulable":                               2,
		"scheduler_scheduling_attempt_duration_seconds default-scheduler scheduled":                       2,
		"scheduler_queue_incoming_pods_total active UnscheduledPodAdd":                                    3} {
		if told[name] < least {
			t.Errorf("%s: %v, want %v or more: %v", name, told[name], least, told)
		}
	}
}

func TestMany(t *testing.T) {
	w := start(t, true)
	for i := range 5 {
		w.create(node(fmt.Sprintf("n%d", i), "", ""))
	}
	for i := range 45 {
		w.create(pod(fmt.Sprintf("p%d", i), "", "cpu=100m", ""))
	}
	count := map[string]int{}
	for i := range 45 {
		count[w.until(fmt.Sprintf("p%d", i), bound).Spec.NodeName]++
	}
	for n, c := range count {
		t.Run(n, func(t *testing.T) {
			if c != 9 {
				t.Errorf("%s has %d pods", n, c)
			}
		})
	}
}

// TestPreemptsGently follows a preemption whose victim takes its time.
func TestPreemptsGently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, true)
		w.create(node("n1", "", ""))
		w.create(pod("low", "", "cpu=3", "priority: 1\nterminationGracePeriodSeconds: 600"))
		time.Sleep(time.Second) // events of one instant have one name
		w.create(pod("high", "", "cpu=3", "priority: 10"))
		synctest.Wait()
		low, high := resource.Get(w.Read(), kinds.Pods, "default", "low"), resource.Get(w.Read(), kinds.Pods, "default", "high")
		if c := find(low, corev1.DisruptionTarget); c == nil || c.Status != corev1.ConditionTrue ||
			c.Reason != corev1.PodReasonPreemptionByScheduler ||
			c.Message != "default-scheduler: preempting to accommodate a higher priority pod" {
			t.Errorf("victim's condition %+v", c)
		}
		if low.DeletionTimestamp == nil || *low.DeletionGracePeriodSeconds != 600 {
			t.Errorf("victim is not leaving gently: %v", low.DeletionGracePeriodSeconds)
		}
		if high.Status.NominatedNodeName != "n1" || !refused(high) {
			t.Errorf("status %+v", high.Status)
		}
		if c := find(high, corev1.PodScheduled); c.Message != "0/1 nodes are available: 1 Insufficient cpu." {
			t.Errorf("message %q", c.Message)
		}
		w.create(pod("middle", "", "cpu=3", "priority: 5")) // must not take the room
		time.Sleep(time.Minute)
		w.remove("low")
		synctest.Wait()
		if w.node("high") != "n1" || w.node("middle") != "" {
			t.Errorf("high on %q, middle on %q", w.node("high"), w.node("middle"))
		}
		if p := resource.Get(w.Read(), kinds.Pods, "default", "high"); p.Status.NominatedNodeName != "" {
			t.Errorf("still nominated: %q", p.Status.NominatedNodeName)
		}
		var told []string
		for _, e := range resource.List(w.Read(), kinds.Events, "default") {
			told = append(told, e.InvolvedObject.Name+" "+e.Reason+": "+e.Message)
			if e.Related != nil { // as upstream's of 1.36
				t.Errorf("%s is told of beside %+v", e.Reason, e.Related)
			}
		}
		slices.Sort(told)
		want := "low Preempted: Preempted by pod " + string(high.UID) + " on node n1"
		if !slices.Contains(told, want) || !slices.Contains(told, "high Scheduled: Successfully assigned default/high to n1") {
			t.Errorf("events %q", told)
		}
	})
}

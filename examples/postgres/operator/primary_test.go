package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// world is a cluster c of three with c-1 as primary, whose pods report what is given; an instance without a report has no pod.
func world(reports map[string]v1alpha1.Report) World {
	c := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", UID: "u"}}
	c.Spec.Replication = v1alpha1.Replication{Enabled: true, ReplicaCount: 2}
	c.Spec.Synchronous = v1alpha1.Preferred
	c.Status = v1alpha1.PostgresClusterStatus{TargetPrimary: "c-1", CurrentPrimary: "c-1", SystemID: "7", Epoch: 3,
		Quorum: &v1alpha1.Quorum{Number: 1, Members: []string{"c-1", "c-2", "c-3"}}}
	w := World{Cluster: c, Pods: map[string]*corev1.Pod{}, Claims: map[string]*corev1.PersistentVolumeClaim{},
		Now: time.Unix(1, 0), Patience: Usual}
	for name, r := range reports {
		p := instancePod(c, name)
		p.UID = types.UID(name)
		text, _ := json.Marshal(r)
		p.Annotations[v1alpha1.ReportAnno] = string(text)
		w.Pods[name] = p
	}
	holder := v1alpha1.Holder("c-1", "c-1")
	w.Lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	return w
}

func voice(epoch, timeline int64, lsn uint64) v1alpha1.Report {
	return v1alpha1.Report{Role: v1alpha1.Replica, SystemID: "7", Epoch: epoch, Timeline: timeline, LSN: lsn}
}

func primary(streaming ...string) v1alpha1.Report {
	return v1alpha1.Report{Role: v1alpha1.Primary, SystemID: "7", Streaming: streaming,
		Quorum: &v1alpha1.Quorum{Number: 1, Members: []string{"c-1", "c-2", "c-3"}}}
}

// needs is a report of an instance that has read the settings of a generation and must restart for them.
func needs(r v1alpha1.Report, generation int64) v1alpha1.Report {
	r.Restart, r.Generation = true, generation
	return r
}

type reports = map[string]v1alpha1.Report

// TestElect: who has most wins, and not before enough were heard that no commit can be missing.
func TestElect(t *testing.T) {
	open := func(r reports, change func(*World)) World {
		w := world(r)
		w.Cluster.Status.Election = &v1alpha1.Election{Former: []string{"c-1"}}
		w.ElectionAge = time.Minute
		if change != nil {
			change(&w)
		}
		return w
	}
	for _, tt := range []struct {
		name string
		w    World
		want string
	}{
		{"the one with more", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 20)}, nil), "c-3"},
		{"the newer timeline", open(reports{"c-2": voice(3, 2, 10), "c-3": voice(3, 1, 20)}, nil), "c-2"},
		{"the first of equals", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 10)}, nil), "c-2"},
		{"one of two is not enough: the other may have acknowledged", open(reports{"c-2": voice(3, 1, 10)}, nil), ""},
		{"an answer to an older election", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(2, 1, 20)}, nil), ""},
		{"the former primary has all", open(reports{"c-1": voice(3, 1, 30), "c-2": voice(3, 1, 10)}, nil), "c-1"},
		{"two must confirm: one is enough", open(reports{"c-2": voice(3, 1, 10)}, func(w *World) { w.Cluster.Status.Quorum.Number = 2 }), "c-2"},
		{"the quorum before counts too", open(reports{"c-2": voice(3, 1, 10)}, func(w *World) {
			w.Cluster.Status.Quorum = &v1alpha1.Quorum{Number: 1, Members: []string{"c-1", "c-2"}}
			w.Cluster.Status.QuorumBefore = &v1alpha1.Quorum{Number: 1, Members: []string{"c-1", "c-2", "c-3"}}
		}), ""},
		{"nobody waits for standbys", open(reports{"c-2": voice(3, 1, 10)}, func(w *World) { w.Cluster.Status.Quorum = nil }), "c-2"},
		{"one could still answer", open(reports{"c-2": voice(3, 1, 10), "c-3": {}, "c-1": {}}, func(w *World) {
			w.ElectionAge, w.Cluster.Status.Quorum.Number = 0, 2
		}), ""},
		{"the lost one is not waited for", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 20), "c-1": {}},
			func(w *World) { w.ElectionAge = 0 }), "c-3"},
		{"the lost one may have acknowledged alone", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 20), "c-1": {}}, func(w *World) {
			w.ElectionAge, w.Cluster.Status.Quorum = 0, nil
		}), ""},
		{"it may have before the quorum changed", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 20), "c-1": {}}, func(w *World) {
			w.ElectionAge, w.Cluster.Status.QuorumBefore = 0, &v1alpha1.Quorum{Members: []string{"c-1"}}
		}), ""},
		{"it had its time", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 20), "c-1": {}}, nil), "c-3"},
		{"who leaves is no primary, and knows more", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 20)}, func(w *World) {
			w.Pods["c-3"].DeletionTimestamp = &metav1.Time{}
		}), ""},
		{"two may have been primary", open(reports{"c-2": voice(3, 1, 10), "c-3": voice(3, 1, 20)}, func(w *World) {
			w.Cluster.Status.Election.Former = []string{"c-2", "c-1"}
		}), "c-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := elect(tt.w); got != tt.want {
				t.Errorf("%q, want %q; missing: %s", got, tt.want, missing(tt.w.Cluster.Status, []string{"c-2"}))
			}
		})
	}
}

// TestDecidePrimary: an election opens when the Lease falls silent and somebody could take over, and a primary that leaves hands over.
func TestDecidePrimary(t *testing.T) {
	all := reports{"c-1": primary("c-2", "c-3"), "c-2": {SystemID: "7"}, "c-3": {SystemID: "7"}}
	old := func(w *World, names ...string) {
		for _, n := range names {
			w.Pods[n].Annotations[v1alpha1.HashAnno] = "old"
		}
	}
	for _, tt := range []struct {
		name     string
		reports  reports
		change   func(w *World)
		target   string
		election bool
	}{
		{"all is well", all, nil, "c-1", false},
		{"silence", reports{"c-1": {}, "c-2": {SystemID: "7"}}, func(w *World) { w.LeaseAge = time.Minute }, "c-1", true},
		{"silence, whatever its last report says", all, func(w *World) { w.LeaseAge = time.Minute }, "c-1", true},
		{"silence, and nobody could take over", reports{"c-1": {}, "c-2": {}}, func(w *World) { w.LeaseAge = time.Minute }, "c-1", false},
		{"it is only starting", reports{"c-1": {}, "c-2": {SystemID: "7"}}, func(w *World) { w.LeaseAge = time.Second }, "c-1", false},
		{"its pod is deleted", all, func(w *World) { w.Pods["c-1"].DeletionTimestamp = &metav1.Time{} }, "c-2", false},
		{"its pod is deleted, and one standby lags", reports{"c-1": primary("c-3"), "c-2": {SystemID: "7"}, "c-3": {SystemID: "7"}},
			func(w *World) { w.Pods["c-1"].DeletionTimestamp = &metav1.Time{} }, "c-3", false},
		{"all are of an older template: standbys first", all, func(w *World) { old(w, "c-1", "c-2", "c-3") }, "c-1", false},
		{"one standby is made anew, and not yet the other", all, func(w *World) { old(w, "c-1", "c-2") }, "c-1", false},
		{"only the primary is", all, func(w *World) { old(w, "c-1") }, "c-2", false},
		{"only it is, and a standby is away", reports{"c-1": primary("c-2"), "c-2": {SystemID: "7"}, "c-3": {SystemID: "7"}},
			func(w *World) { old(w, "c-1") }, "c-1", false},
		{"its settings wait for a restart, and a standby has not read them yet", reports{"c-1": needs(primary("c-2", "c-3"), 2),
			"c-2": {SystemID: "7", Role: v1alpha1.Replica, Generation: 1}, "c-3": needs(voice(0, 1, 1), 2)},
			func(w *World) { w.Cluster.Generation = 2 }, "c-1", false},
		{"it is not one too many", all, func(w *World) { w.Cluster.Spec.Replication.ReplicaCount = 0 }, "c-1", false},
		{"the cluster is deleted", reports{"c-1": {}, "c-2": {SystemID: "7"}}, func(w *World) {
			w.LeaseAge, w.Cluster.DeletionTimestamp = time.Minute, &metav1.Time{}
		}, "c-1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world(tt.reports)
			if tt.change != nil {
				tt.change(&w)
			}
			status := w.Cluster.Status.DeepCopy()
			decidePrimary(w, status)
			if status.TargetPrimary != tt.target || (status.Election != nil) != tt.election {
				t.Errorf("target %s, election %v; want %s, %v", status.TargetPrimary, status.Election, tt.target, tt.election)
			}
		})
	}
}

// TestQuorumChangesOneAtATime: there are never more than two quorums that could be in force.
func TestQuorumChangesOneAtATime(t *testing.T) {
	w := world(reports{"c-1": primary("c-2"), "c-2": {}, "c-3": {}})
	status := w.Cluster.Status.DeepCopy()
	decidePrimary(w, status)
	if got := strings.Join(status.Quorum.Members, " "); got != "c-1 c-2" || len(status.QuorumBefore.Members) != 3 {
		t.Fatalf("quorum %v, before %v; want c-1 c-2, and all three before", status.Quorum, status.QuorumBefore)
	}
	w.Cluster.Status = *status.DeepCopy() // the primary still reports the old one, and c-3 is back
	text, _ := json.Marshal(primary("c-2", "c-3"))
	w.Pods["c-1"].Annotations[v1alpha1.ReportAnno] = string(text)
	decidePrimary(w, status)
	if got := strings.Join(status.Quorum.Members, " "); got != "c-1 c-2" || status.QuorumBefore == nil {
		t.Errorf("quorum %v, before %v; want no change before the last one is in force", status.Quorum, status.QuorumBefore)
	}
}

// TestPods: one pod at a time is replaced, standbys first, and only while all stream.
func TestPods(t *testing.T) {
	w := world(reports{"c-1": primary("c-2", "c-3"), "c-2": {}, "c-3": {}})
	for _, p := range w.Pods {
		p.Annotations[v1alpha1.HashAnno] = "old"
	}
	if s := decidePods(w); len(s.StopPods) != 1 || s.StopPods[0] != "c-3" {
		t.Errorf("stops %v, want c-3 alone", s.StopPods)
	}
	w.Pods["c-3"].DeletionTimestamp = &metav1.Time{}
	if s := decidePods(w); len(s.StopPods) != 0 {
		t.Errorf("stops %v while another is away", s.StopPods)
	}
	// PostgreSQL pauses on a standby that has fewer connections than its primary: only a restart lets it stream again.
	paused := needs(voice(0, 1, 1), 0)
	paused.Paused = true
	w = world(reports{"c-1": primary("c-2"), "c-2": {}, "c-3": paused})
	if s := decidePods(w); len(s.StopPods) != 1 || s.StopPods[0] != "c-3" {
		t.Errorf("stops %v, want c-3, which can't stream before", s.StopPods)
	}
	w = world(reports{"c-1": primary("c-2"), "c-2": needs(voice(0, 1, 1), 0), "c-3": {}})
	if s := decidePods(w); len(s.StopPods) != 0 {
		t.Errorf("stops %v while another does not stream", s.StopPods)
	}
	w = world(reports{"c-1": primary("c-2"), "c-2": {}, "c-3": needs(primary(), 0)})
	if s := decidePods(w); len(s.StopPods) != 0 {
		t.Errorf("stops %v, which has just handed over and starts anew by itself", s.StopPods)
	}
	w = world(reports{"c-1": primary("c-2"), "c-2": {}, "c-3": {}})
	w.Cluster.Spec.Replication.ReplicaCount = 1
	if s := decidePods(w); len(s.StopPods) != 0 {
		t.Errorf("stops %v, for which commits may still wait", s.StopPods)
	}
	w.Cluster.Status.Quorum.Members = []string{"c-1", "c-2"}
	if s := decidePods(w); len(s.StopPods) != 1 || s.StopPods[0] != "c-3" {
		t.Errorf("stops %v, want c-3", s.StopPods)
	}
}

package deployment

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Unix(10000, 0)

// deploy makes a deployment of the size with surge and unavailable as people write them; "" is Recreate.
func deploy(size int32, surge, unavailable string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &size}}
	if surge == "" {
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		return d
	}
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}
	return d
}

// sized makes a set from "name spec/available", and the annotations that d would have given it at size `at`.
func sized(t *testing.T, text string, at int32, d *appsv1.Deployment, age int) *appsv1.ReplicaSet {
	t.Helper()
	var name string
	var size, available int32
	if _, err := fmt.Sscanf(text, "%s %d/%d", &name, &size, &available); err != nil {
		t.Fatal(err)
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name,
		CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(age) * time.Hour)),
		Annotations:       map[string]string{revisionKey: strconv.Itoa(10 - age)}}, Spec: appsv1.ReplicaSetSpec{Replicas: &size}}
	rs.Status.Replicas, rs.Status.AvailableReplicas = size, available
	was := d.DeepCopy()
	was.Spec.Replicas = &at
	annotateSize(was, rs)
	return rs
}

func pausing(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Paused = true
	return d
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    *appsv1.Deployment
		was  int32 // size when the sets were last scaled
		new  string
		old  []string // oldest first
		run  bool     // pods of old sets exist
		want string
	}{
		{"surge first", deploy(10, "25%", "25%"), 10, "n 0/0", []string{"o 10/10"}, true, "n=3"},
		{"then down to the floor", deploy(10, "25%", "25%"), 10, "n 3/0", []string{"o 10/10"}, true, "o=8"},
		{"no further without available ones", deploy(10, "25%", "25%"), 10, "n 5/0", []string{"o 8/8"}, true, ""},
		{"one for one", deploy(10, "25%", "25%"), 10, "n 5/3", []string{"o 8/8"}, true, "o=5"},
		{"sick ones first", deploy(10, "1", "0"), 10, "n 1/1", []string{"a 4/0", "b 6/6"}, true, "a=3"},
		{"sick and spare", deploy(10, "1", "2"), 10, "n 1/1", []string{"a 4/2", "b 6/6"}, true, "a=1"},
		{"no surge", deploy(4, "0", "1"), 4, "n 0/0", []string{"o 4/4"}, true, "o=3"},
		{"neither means one unavailable", deploy(3, "0", "1%"), 3, "n 0/0", []string{"o 3/3"}, true, "o=2"},
		{"scaled up in the middle", deploy(20, "25%", "25%"), 10, "n 5/5", []string{"o 8/8"}, true, "o=15 n=10"},
		{"scaled down in the middle", deploy(5, "2", "0"), 10, "n 6/6", []string{"o 6/6"}, true, "o=3 n=4"},
		{"scaled to nothing in the middle", deploy(0, "2", "0"), 10, "n 6/6", []string{"o 6/6"}, true, "o=0 n=0"},
		{"scaled at rest", deploy(7, "1", "0"), 5, "n 5/5", []string{"o 0/0"}, false, "n=7"},
		{"recreate empties", deploy(3, "", ""), 3, "n 0/0", []string{"o 3/3"}, true, "o=0"},
		{"recreate waits", deploy(3, "", ""), 3, "n 0/0", []string{"o 0/0"}, true, ""},
		{"recreate that was paused in the middle", pausing(deploy(7, "", "")), 7, "n 3/0", []string{"o 6/6"}, true, ""},
		{"recreate that was paused, and resized", pausing(deploy(5, "", "")), 7, "n 3/0", []string{"o 6/6"}, true, ""},
		{"recreate that was resized in the middle", deploy(5, "", ""), 7, "n 3/0", []string{"o 6/6"}, true, "o=0"},
		{"recreate that was paused when all new ones were there", pausing(deploy(3, "", "")), 3, "n 3/3", []string{"o 2/2"}, true, "o=0"},
		{"recreate fills", deploy(3, "", ""), 3, "n 0/0", []string{"o 0/0"}, false, "n=3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{d: tt.d, new: sized(t, tt.new, tt.was, tt.d, 1), running: tt.run}
			for i, o := range tt.old {
				w.old = append(w.old, sized(t, o, tt.was, tt.d, 9-i))
			}
			var got []string
			for _, s := range plan(w, now).scale {
				got = append(got, fmt.Sprintf("%s=%d", s.set.Name, s.to))
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("plan: %q, want %q", text, tt.want)
			}
		})
	}
}

// A set that has not seen its size may take pods away that its status shows: they don't count.
func TestStanding(t *testing.T) {
	d := deploy(4, "2", "0")
	for _, tt := range []struct {
		name     string
		n, o     string
		nOld     bool // the new set has not seen its size
		oOld     bool // nor has the old one
		plan     string
		standing int32 // of the new set
	}{
		{"both have seen", "n 2/2", "o 4/4", false, false, "o=2", 2},
		{"rolled back before the emptied set heard of it", "n 2/2", "o 4/4", true, false, "", 0},
		{"the old one is about to shrink", "n 2/2", "o 4/4", false, true, "", 2},
		{"more than it means to keep", "n 2/4", "o 4/4", false, false, "o=2", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{d: d, new: sized(t, tt.n, 4, d, 1), old: []*appsv1.ReplicaSet{sized(t, tt.o, 4, d, 2)}}
			for rs, old := range map[*appsv1.ReplicaSet]bool{w.new: tt.nOld, w.old[0]: tt.oOld} {
				rs.Generation, rs.Status.ObservedGeneration = 2, 2
				if old {
					rs.Status.ObservedGeneration = 1
				}
			}
			var got []string
			for _, s := range plan(w, now).scale {
				got = append(got, fmt.Sprintf("%s=%d", s.set.Name, s.to))
			}
			if text := strings.Join(got, " "); text != tt.plan || standing(w.new) != tt.standing {
				t.Errorf("%s: %q, %d stand; want %q, %d", tt.name, text, standing(w.new), tt.plan, tt.standing)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		size              int32
		surge, un         string
		wantSurge, wantUn int32
	}{
		{10, "25%", "25%", 3, 2}, {1, "25%", "25%", 1, 0}, {3, "0", "0", 0, 1}, {3, "100%", "100%", 3, 3}, {2, "1", "5", 1, 2}, {5, "", "", 0, 0},
		{5, "2147483647", "0", 1<<31 - 6, 0},
	} {
		if s, u := bounds(deploy(tt.size, tt.surge, tt.un)); s != tt.wantSurge || u != tt.wantUn {
			t.Errorf("%d pods, surge %q, unavailable %q: %d, %d", tt.size, tt.surge, tt.un, s, u)
		}
	}
}

func TestHistory(t *testing.T) {
	d := deploy(1, "1", "0")
	limit := int32(1)
	d.Spec.RevisionHistoryLimit = &limit
	d.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	w := world{d: d, new: sized(t, "n 1/1", 1, d, 0)}
	for i, o := range []string{"a 0/0", "b 0/0", "c 0/0"} {
		w.old = append(w.old, sized(t, o, 1, d, 9-i))
	}
	got := ""
	for _, rs := range plan(w, now).remove {
		got += rs.Name
	}
	if got != "ab" {
		t.Errorf("removes %q, want the two oldest", got)
	}
	d.Status.AvailableReplicas = 0
	if n := len(plan(w, now).remove); n != 0 {
		t.Errorf("removes %d sets in the middle of a rollout", n)
	}
}

func TestRollbackGetsANewRevision(t *testing.T) {
	d := deploy(1, "1", "0")
	d.Spec.Template.Spec.NodeName = "x"
	old, cur := sized(t, "old 0/0", 1, d, 5), sized(t, "cur 1/1", 1, d, 2)
	old.Spec.Template = *d.Spec.Template.DeepCopy()
	old.Spec.Template.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "h"}
	found, rest := split(d, []*appsv1.ReplicaSet{cur, old})
	if found != old || len(rest) != 1 {
		t.Fatalf("the set of the template is %v", found)
	}
	if rev := nextRevision(&world{d: d, new: found, old: rest}); rev != "9" {
		t.Errorf("its next revision is %s, want 9", rev)
	}
}

func TestTemplateHash(t *testing.T) {
	hash := func(edit func(*corev1.PodTemplateSpec), n *int32) string {
		p := &corev1.PodTemplateSpec{}
		p.Labels = map[string]string{"a": "b"}
		edit(p)
		h, err := templateHash(p, n)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	none := func(*corev1.PodTemplateSpec) {}
	one := int32(1)
	base := hash(none, nil)
	if again := hash(func(p *corev1.PodTemplateSpec) { p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x" }, nil); again != base {
		t.Errorf("the label that tells sets apart changes the hash")
	}
	if hash(func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = "n" }, nil) == base || hash(none, &one) == base {
		t.Error("another template or a collision has the same hash")
	}
}

func TestProgress(t *testing.T) {
	ten := int32(10)
	cond := func(reason string, s corev1.ConditionStatus, ago time.Duration) []appsv1.DeploymentCondition {
		return []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: s, Reason: reason,
			LastUpdateTime: metav1.NewTime(now.Add(-ago))}}
	}
	full := appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	half := appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, ReadyReplicas: 2, AvailableReplicas: 2}
	for _, tt := range []struct {
		name   string
		have   []appsv1.DeploymentCondition
		was    appsv1.DeploymentStatus
		is     appsv1.DeploymentStatus
		paused bool
		want   string
	}{
		{"found", nil, half, half, false, "True FoundNewReplicaSet"},
		{"a rollback", cond("NewReplicaSetAvailable", "True", time.Hour), full, half, false, "True NewReplicaSetAvailable"},
		{"moved", cond("NewReplicaSetCreated", "True", time.Minute), appsv1.DeploymentStatus{}, half, false, "True ReplicaSetUpdated"},
		{"stands still", cond("ReplicaSetUpdated", "True", time.Second), half, half, false, "True ReplicaSetUpdated"},
		{"overdue", cond("ReplicaSetUpdated", "True", time.Minute), half, half, false, "False ProgressDeadlineExceeded"},
		{"complete", cond("ReplicaSetUpdated", "True", time.Minute), half, full, false, "True NewReplicaSetAvailable"},
		{"complete after all", cond("ProgressDeadlineExceeded", "False", time.Minute), half, full, false, "True NewReplicaSetAvailable"},
		{"lost a pod later", cond("NewReplicaSetAvailable", "True", time.Hour), full,
			appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1}, false, "True NewReplicaSetAvailable"},
		{"paused", cond("ReplicaSetUpdated", "True", time.Minute), half, half, true, "Unknown DeploymentPaused"},
		{"paused when all is done", cond("NewReplicaSetAvailable", "True", time.Minute), full, full, true, "Unknown DeploymentPaused"},
		{"paused when it is overdue", cond("ProgressDeadlineExceeded", "False", time.Minute), half, half, true, "False ProgressDeadlineExceeded"},
		{"resumed and done", cond("DeploymentPaused", "Unknown", time.Hour), full, full, false, "True NewReplicaSetAvailable"},
		{"resumed", cond("DeploymentPaused", "Unknown", time.Hour), half, half, false, "Unknown DeploymentResumed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := deploy(2, "1", "0")
			d.Spec.ProgressDeadlineSeconds, d.Spec.Paused = &ten, tt.paused
			d.Status, tt.is.ObservedGeneration = tt.was, d.Generation
			d.Status.Conditions = tt.have
			got := find(conditions(world{d: d, new: sized(t, "n 1/1", 2, d, 1)}, tt.is, now), appsv1.DeploymentProgressing)
			if text := string(got.Status) + " " + got.Reason; text != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
			}
		})
	}
}

// A deployment that is done and lost a pod for good has nothing to look at again: it rests until something changes.
func TestUntilDeadline(t *testing.T) {
	ten := int32(10)
	for reason, want := range map[string]time.Duration{"NewReplicaSetAvailable": 0, "ReplicaSetUpdated": 7 * time.Second} {
		t.Run(reason, func(t *testing.T) {
			d := deploy(2, "1", "0")
			d.Spec.ProgressDeadlineSeconds = &ten
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason,
				LastUpdateTime: metav1.NewTime(now.Add(-3 * time.Second))}}
			if got := untilDeadline(d, []*appsv1.ReplicaSet{sized(t, "n 2/1", 2, d, 1)}, now); got != want {
				t.Errorf("again after %v, want %v", got, want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("d", 250)
	for _, tt := range [][2]string{{setName("web", "abc"), "web-abc"}, {setName(long, "abcdefghij"), long[:242] + "-abcdefghij"},
		{remember("", "1"), "1"}, {remember("1,3", "5"), "1,3,5"}, {remember(strings.Repeat("1234,", 399)+"12345", "67"),
			strings.Repeat("1234,", 398) + "12345,67"}} {
		if tt[0] != tt[1] {
			t.Errorf("%q, want %q", tt[0], tt[1])
		}
	}
}

func TestFailure(t *testing.T) {
	d := deploy(1, "1", "0")
	w := world{d: d, new: sized(t, "n 0/0", 1, d, 0), old: []*appsv1.ReplicaSet{sized(t, "o 1/1", 1, d, 1)}}
	for _, rs := range w.all() {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			Message: rs.Name}}
	}
	if got := failure(nil, w); len(got) != 1 || got[0].Message != "n" {
		t.Errorf("%+v, want what the new set says", got)
	}
}

func TestGoBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rev    int64
		reason string
		node   string // that the template names
	}{
		{"the one before", 0, "DeploymentRollback", "b"},
		{"a revision", 2, "DeploymentRollback", "a"},
		{"the present one", 9, "DeploymentRollbackTemplateUnchanged", "c"},
		{"none", 7, "DeploymentRollbackRevisionNotFound", "c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := deploy(1, "1", "0")
			d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "1", "mine": "new", "more": "x", revisionKey: "9"}
			d.Spec.Template.Spec.NodeName = "c"
			w := world{d: d, new: sized(t, "c 1/1", 1, d, 1), old: []*appsv1.ReplicaSet{sized(t, "a 0/0", 1, d, 8), sized(t, "b 0/0", 1, d, 5)}}
			for _, rs := range w.all() {
				rs.Spec.Template.Spec.NodeName = rs.Name
				rs.Spec.Template.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: rs.Name}
				rs.Annotations["mine"] = "of " + rs.Name
			}
			next, reason, _ := goBack(w, tt.rev)
			if _, left := rollbackTo(next); reason != tt.reason || next.Spec.Template.Spec.NodeName != tt.node || left ||
				len(next.Spec.Template.Labels) > 0 {
				t.Errorf("%s: %s, template of %s, %v", tt.name, reason, next.Spec.Template.Spec.NodeName, next.Annotations)
			}
			if back := reason == "DeploymentRollback"; back && (next.Annotations["mine"] != "of "+tt.node || next.Annotations["more"] != "" ||
				next.Annotations[revisionKey] != "9") {
				t.Errorf("%s: %v", tt.name, next.Annotations)
			}
		})
	}
	if got := lastRevision(nil); got != 0 {
		t.Errorf("without sets the last revision is %d", got)
	}
}

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// TestRemembersRight changes a site at random and checks after every step that what was remembered and updated
// leads to the same decision as finding everything out anew.
func TestRemembersRight(t *testing.T) {
	specs := []string{"", "nodeSelector: {zone: a}", "tolerations: [{key: t, operator: Exists}]", "priority: 5", port80,
		hardSpread("zone", 1), hardSpread("kubernetes.io/hostname", 2, "nodeTaintsPolicy: Honor"), spreadBy("zone", 1, "ScheduleAnyway"),
		affinity("podAntiAffinity", "kubernetes.io/hostname", "app: a"), affinity("podAffinity", "zone", "app: a"),
		affinity("podAntiAffinity", "zone", "app: b", "namespaceSelector: {matchLabels: {team: x}}"),
		affinity("podAffinity", "zone", "app: a", "namespaceSelector: {matchLabels: {team: x}}"),
		"affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
			"[{weight: 9, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: b}}}}]}}",
		"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: " +
			"[{key: zone, operator: In, values: [b]}]}}]}}"}
	var samples []*corev1.Pod
	for i, s := range specs {
		samples = append(samples, pod("p", "app: "+[]string{"a", "b"}[i%2], []string{"cpu=500m", "cpu=1,memory=1Gi", ""}[i%3], s))
	}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { wander(t, rand.New(rand.NewPCG(seed, 1)), samples, 400) })
	}
}

func wander(t *testing.T, r *rand.Rand, samples []*corev1.Pod, steps int) {
	st := newState()
	st.read = noObjects{}
	var on []*task
	for step := range steps {
		switch r.IntN(10) {
		case 0, 1:
			name := fmt.Sprintf("n%d", r.IntN(12))
			if r.IntN(5) == 0 {
				st.setNode(name, nil)
				break
			}
			st.setNode(name, randomNode(r, name))
		case 2:
			st.topo.setNamespace("default", labels.Set{"team": []string{"x", "y"}[r.IntN(2)]}, true)
		case 3, 4:
			if len(on) > 0 {
				i := r.IntN(len(on))
				st.removePod(on[i])
				st.nominate(on[i], -1)
				delete(st.tasks, keyOf(on[i].pod))
				on[i].class.release()
				on = slices.Delete(on, i, i+1)
			}
		case 5:
			if len(on) > 0 {
				if x := on[r.IntN(len(on))]; x.node >= 0 && x.nominee < 0 {
					st.nominate(x, x.node)
					st.removePod(x)
				}
			}
		default:
			x := randomTask(st, r, samples, step)
			if i := checkSame(t, st, x); i >= 0 {
				st.addPod(x, i)
				on = append(on, x)
			} else {
				x.class.release()
			}
		}
		checkSums(t, st)
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
	if len(on) == 0 {
		t.Error("nothing was placed")
	}
}

func randomNode(r *rand.Rand, name string) *corev1.Node {
	n := node(name, "zone: "+[]string{"a", "b", "c"}[r.IntN(3)], "")
	switch r.IntN(6) {
	case 0:
		n.Spec.Unschedulable = true
	case 1:
		n.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
	case 2:
		n.Spec.Taints = []corev1.Taint{{Key: "u", Effect: corev1.TaintEffectPreferNoSchedule}}
	case 3:
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"i:latest"}, SizeBytes: 1 << 30}}
	case 4:
		delete(n.Labels, "zone")
	}
	return n
}

func randomTask(st *state, r *rand.Rand, samples []*corev1.Pod, n int) *task {
	p := *samples[r.IntN(len(samples))]
	p.Name, p.UID = fmt.Sprintf("p%d", n), types.UID(fmt.Sprint(n))
	return st.task(&p)
}

// checkSame decides a task twice, the second time with nothing remembered.
func checkSame(t *testing.T, st *state, x *task) int {
	t.Helper()
	i, f := st.decide(x)
	x.class.unprepare()
	for _, ta := range st.topo.counters {
		st.topo.recount(ta)
	}
	j, g := st.decide(x)
	if i != j {
		t.Errorf("%d, then %d", i, j)
	}
	if f != nil && g != nil && f.message() != g.message() {
		t.Errorf("%q, then %q", f.message(), g.message())
	}
	return i
}

// checkSums compares the running counts with what is there.
func checkSums(t *testing.T, st *state) {
	t.Helper()
	for _, s := range st.nodes {
		again := newNodeInfo(s.name)
		for _, x := range s.pods {
			again.add(x.need, 1)
		}
		if !slices.Equal(again.requested, s.requested[:len(again.requested)]) || again.nonZeroCPU != s.nonZeroCPU ||
			len(again.ports) != len(s.ports) {
			t.Errorf("%s: %v, should be %v", s.name, s.requested, again.requested)
		}
	}
	for _, ta := range st.topo.counters {
		per, total := slices.Clone(ta.per), ta.total
		if st.topo.recount(ta); !slices.Equal(per, ta.per) || total != ta.total {
			t.Errorf("%s: %v, should be %v", ta.key, per, ta.per)
		}
	}
	for _, tm := range st.topo.terms {
		per := make([]int32, len(st.nodes))
		for i, s := range st.nodes {
			for _, x := range s.pods {
				for _, own := range x.class.terms {
					if own == tm {
						per[i]++
					}
				}
			}
		}
		if !slices.Equal(per, tm.per) {
			t.Errorf("%s: %v, should be %v", tm.key, tm.per, per)
		}
	}
}

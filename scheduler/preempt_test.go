package scheduler

import (
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestPreempt asks for victims: the node and who leaves it, or why nobody does.
func TestPreempt(t *testing.T) {
	type there struct{ name, node, labels, asks, spec string }
	for _, test := range []struct {
		name       string
		there      []there
		asks, spec string
		budget     string // label value of app that nobody may touch
		want       string
	}{
		{"lower goes", []there{{"low", "n1", "", "cpu=3", "priority: 1"}, {"high", "n2", "", "cpu=3", "priority: 99"}}, "cpu=2", "", "",
			"n1: low"},
		{"equal stays", []there{{"a", "n1", "", "cpu=3", "priority: 10"}, {"b", "n2", "", "cpu=3", "priority: 10"}}, "cpu=2", "", "",
			"0/2 nodes are available: 2 No preemption victims found for incoming pod."},
		{"as few as do", []there{{"a", "n1", "", "cpu=2", "priority: 1"}, {"b", "n1", "", "cpu=2", "priority: 2"},
			{"c", "n2", "", "cpu=4", "priority: 10"}}, "cpu=2", "", "", "n1: a"},
		{"the least important first victim", []there{{"a", "n1", "", "cpu=4", "priority: 3"}, {"b", "n2", "", "cpu=4", "priority: 2"}},
			"cpu=2", "", "", "n2: b"},
		{"fewer of one priority", []there{{"a", "n1", "", "cpu=2", "priority: 1"}, {"b", "n1", "", "cpu=2", "priority: 1"},
			{"c", "n2", "", "cpu=4", "priority: 1"}}, "cpu=4", "", "", "n2: c"},
		{"a budget counts first", []there{{"a", "n1", "app: safe", "cpu=4", "priority: 1"}, {"b", "n2", "", "cpu=4", "priority: 2"}},
			"cpu=2", "", "safe", "n2: b"},
		{"a budget is broken last", []there{{"a", "n1", "app: safe", "cpu=4", "priority: 1"}, {"b", "n2", "", "cpu=4", "priority: 50"}},
			"cpu=2", "", "safe", "n1: a"},
		{"reprieve goes by budget", []there{{"a", "n1", "app: safe", "cpu=2", "priority: 1"}, {"b", "n1", "", "cpu=2", "priority: 2"},
			{"c", "n2", "", "cpu=4", "priority: 10"}}, "cpu=2", "", "safe", "n1: b"},
		{"never", []there{{"a", "n1", "", "cpu=4", "priority: 1"}}, "cpu=5", "preemptionPolicy: Never", "",
			"not eligible due to preemptionPolicy=Never."},
		{"hopeless", []there{{"a", "n1", "", "cpu=4", "priority: 1"}}, "cpu=5", "", "",
			"0/2 nodes are available: 2 Preemption is not helpful for scheduling."},
		{"wrong nodes", []there{{"a", "n1", "", "cpu=4", "priority: 1"}}, "cpu=1", "nodeSelector: {no: such}", "",
			"0/2 nodes are available: 2 Preemption is not helpful for scheduling."},
		{"anti-affinity", []there{{"a", "n1", "app: x", "", "priority: 1"}, {"b", "n2", "app: x", "", "priority: 10"}}, "",
			affinity("podAntiAffinity", "kubernetes.io/hostname", "app: x"), "", "n1: a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := site(node("n1", "", ""), node("n2", "", ""))
			st.read = noObjects{}
			for _, x := range test.there {
				st.add(pod(x.name, x.labels, x.asks, x.spec), x.node)
			}
			p := st.task(pod("p", "", test.asks, "priority: 10\n"+test.spec))
			_, f := st.decide(p)
			if f == nil {
				t.Fatal("it fits")
			}
			var budgets []budget
			if test.budget != "" {
				budgets = append(budgets, budget{&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}},
					labels.SelectorFromSet(labels.Set{"app": test.budget})})
			}
			before := st.now()
			got, why := st.preempt(p, f, budgets)
			if got != nil {
				var names []string
				for _, v := range got.victims {
					names = append(names, v.pod.Name)
				}
				why = st.nodes[got.node].name + ": " + strings.Join(names, ", ")
			}
			if why != test.want {
				t.Errorf("got %q, want %q", why, test.want)
			}
			if st.now() != before {
				t.Error("trying out left marks in the journal")
			}
			for _, x := range test.there { // all are back
				if k := st.tasks[key{Namespace: "default", Name: x.name}]; st.nameOf(k.node) != x.node || !slices.Contains(st.nodes[k.node].pods, k) {
					t.Errorf("%s is not where it was", x.name)
				}
			}
		})
	}
}

// TestNominated keeps the room of a nominee from pods that matter less, not from those that matter more.
func TestNominated(t *testing.T) {
	st := site(node("n1", "", ""))
	st.read = noObjects{}
	nominee := st.task(pod("nominee", "", "cpu=3", "priority: 5"))
	st.nominate(nominee, 0)
	if got := st.where(pod("low", "", "cpu=2", "priority: 1")); got != "0/1 nodes are available: 1 Insufficient cpu." {
		t.Errorf("low: %s", got)
	}
	if got := st.where(pod("high", "", "cpu=2", "priority: 9")); got != "n1" {
		t.Errorf("high: %s", got)
	}
	if i, f := st.decide(nominee); f != nil || i != 0 {
		t.Errorf("nominee: %v", f)
	}
	st.nominate(nominee, -1)
	if got := st.where(pod("low2", "", "cpu=2", "priority: 1")); got != "n1" {
		t.Errorf("low, later: %s", got)
	}
	if s := st.nodes[0]; len(s.pods) != 0 || s.requested[resCPU] != 0 {
		t.Errorf("guests stayed: %v", s.requested)
	}
}

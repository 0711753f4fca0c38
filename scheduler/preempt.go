package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A candidate is a node on which removing victims would let a pod run.
type candidate struct {
	node     int
	victims  []*task // the most important first
	breaches int     // how many go against a disruption budget
}

// preempt finds the victims whose removal lets the task run at the least harm (the plugin DefaultPreemption). The
// text says why there are none.
func (st *state) preempt(t *task, f *failure, budgets []budget) (*candidate, string) {
	return (&preemption{st, t, budgets}).run(f)
}

// A preemption looks for the victims of one task.
type preemption struct {
	st      *state
	task    *task
	budgets []budget
}

func (p *preemption) run(f *failure) (*candidate, string) {
	st, t := p.st, p.task
	if policy := t.pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return nil, "not eligible due to preemptionPolicy=Never."
	}
	if st.leaving(t) {
		return nil, "not eligible due to a terminating pod on the nominated node."
	}
	if f.nodes == 0 {
		return nil, ""
	}
	why := map[string]int{}
	var list []*candidate
	enough := t.class.profile.enough(st.nodeCount)
	for n := range f.refused {
		i := (n + st.nextStart) % len(f.refused)
		r := f.refused[i]
		if r == noNode {
			continue
		}
		if r == nil || r.unresolvable || len(list) >= enough {
			why["Preemption is not helpful for scheduling"]++
			continue
		}
		c, reason := p.dryRun(i)
		if c == nil {
			why[reason]++
			continue
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		if f.pre != "" {
			why["Preemption is not helpful for scheduling"] = f.nodes
		}
		return nil, histogram(f.nodes, why)
	}
	list, err := p.agreed(list)
	if err != nil || len(list) == 0 {
		return nil, ""
	}
	return slices.MinFunc(list, cheaper), ""
}

// leaving tells whether pods that make room for the task are still on their way out.
func (st *state) leaving(t *task) bool {
	if t.nominee < 0 {
		return false
	}
	for _, x := range st.nodes[t.nominee].pods {
		if (x.pod.DeletionTimestamp != nil || x.evicting) && x.class.priority < t.class.priority {
			return true
		}
	}
	return false
}

// dryRun finds the victims on one node: all lower pods go, then return one by one, the most important first, as
// long as there is room.
func (p *preemption) dryRun(i int) (found *candidate, why string) {
	st, t := p.st, p.task
	var victims []*task
	for _, x := range st.nodes[i].pods {
		if x.class.priority < t.class.priority {
			victims = append(victims, x)
		}
	}
	if len(victims) == 0 {
		return nil, "No preemption victims found for incoming pod"
	}
	slices.SortFunc(victims, moreImportant)
	quiet := st.trial
	st.trial = true
	defer func() { st.trial = quiet }()
	for _, x := range victims {
		st.removePod(x)
	}
	defer func() {
		for _, x := range victims {
			if x.node < 0 {
				st.addPod(x, i)
			}
		}
	}()
	if !st.fits(t, i) {
		return nil, p.whyNot(i)
	}
	breaking, others := split(victims, p.budgets)
	found = &candidate{node: i}
	for n, x := range append(breaking, others...) {
		st.addPod(x, i)
		if st.fits(t, i) {
			continue
		}
		st.removePod(x)
		found.victims = append(found.victims, x)
		if n < len(breaking) {
			found.breaches++
		}
	}
	if len(found.victims) == 0 {
		return nil, "Preemption is not helpful for scheduling"
	}
	slices.SortFunc(found.victims, moreImportant)
	return found, ""
}

func (p *preemption) whyNot(i int) string {
	c := p.task.class
	r := c.check(p.st.nodes[i])
	if r == nil && c.topology.filters() {
		r = c.checkTopology(c.countTopology(), i)
	}
	if r == nil {
		return "Preemption is not helpful for scheduling"
	}
	return r.reasons[0]
}

func started(t *task) time.Time {
	if t.pod.Status.StartTime != nil {
		return t.pod.Status.StartTime.Time
	}
	return t.pod.CreationTimestamp.Time
}

// moreImportant orders by priority, then by age.
func moreImportant(a, b *task) int {
	if a.class.priority != b.class.priority {
		if a.class.priority > b.class.priority {
			return -1
		}
		return 1
	}
	return started(a).Compare(started(b))
}

// cheaper orders candidates: fewest broken budgets, then the least important first victim, the least sum of
// priorities, the fewest victims, the one whose most important victim is youngest.
func cheaper(a, b *candidate) int {
	sum := func(c *candidate) (n int64) {
		for _, v := range c.victims {
			n += int64(v.class.priority) + 1<<31
		}
		return n
	}
	order := []int64{int64(a.breaches - b.breaches), int64(a.victims[0].class.priority) - int64(b.victims[0].class.priority),
		sum(a) - sum(b), int64(len(a.victims) - len(b.victims)), int64(started(earliest(b)).Compare(started(earliest(a))))}
	for _, d := range order {
		if d != 0 {
			return int(max(min(d, 1), -1))
		}
	}
	return 0
}

// A budget is a PodDisruptionBudget and its selector.
type budget struct {
	pdb *policyv1.PodDisruptionBudget
	sel labels.Selector
}

func budgetsOf(read resource.Reader) (list []budget) {
	if read == nil {
		return nil
	}
	for _, b := range resource.List(read, kinds.PodDisruptionBudgets, "") {
		if sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && !sel.Empty() {
			list = append(list, budget{b, sel})
		}
	}
	return list
}

// split finds the victims that go against a budget.
func split(victims []*task, budgets []budget) (breaking, others []*task) {
	left := make([]int32, len(budgets))
	for i, b := range budgets {
		left[i] = b.pdb.Status.DisruptionsAllowed
	}
	for _, v := range victims {
		breaks := false
		for i, b := range budgets {
			if b.pdb.Namespace != v.pod.Namespace || len(v.pod.Labels) == 0 || !b.sel.Matches(labels.Set(v.pod.Labels)) {
				continue
			}
			if _, gone := b.pdb.Status.DisruptedPods[v.pod.Name]; gone {
				continue
			}
			left[i]--
			breaks = breaks || left[i] < 0
		}
		if breaks {
			breaking = append(breaking, v)
		} else {
			others = append(others, v)
		}
	}
	return breaking, others
}

// earliest is the oldest among the most important victims.
func earliest(c *candidate) *task {
	first := c.victims[0]
	for _, v := range c.victims {
		if v.class.priority == first.class.priority && started(v).Before(started(first)) {
			first = v
		}
	}
	return first
}

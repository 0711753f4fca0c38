package causes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	kloop "github.com/kloop-dev/kloop/resource"
)

// asksFor returns the amount of a resource that a pod's containers ask for together; init containers run one after the other, before them.
func asksFor(p *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var sum, first resource.Quantity
	for i := range p.Spec.Containers {
		sum.Add(p.Spec.Containers[i].Resources.Requests[name])
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		q := c.Resources.Requests[name]
		if podspec.Sidecar(c) {
			sum.Add(q)
		} else if q.Cmp(first) > 0 {
			first = q
		}
	}
	if first.Cmp(sum) > 0 {
		sum = first
	}
	sum.Add(p.Spec.Overhead[name])
	return sum
}

// barrier says what keeps a pod that asks for such nodes off one, whatever room it has; "": nothing does.
func barrier(p *corev1.Pod, asks nodeaffinity.RequiredNodeAffinity, n *corev1.Node) string {
	if n.Spec.Unschedulable {
		return "is cordoned"
	}
	return fixed(p, asks, n)
}

// fixed is the barrier that stands whether the node is cordoned or not.
func fixed(p *corev1.Pod, asks nodeaffinity.RequiredNodeAffinity, n *corev1.Node) string {
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable && !slices.ContainsFunc(p.Spec.Tolerations,
			func(o corev1.Toleration) bool { return Tolerates(&o, &t) }) {
			return "has the taint " + t.ToString()
		}
	}
	if ok, err := asks.Match(n); err != nil || !ok {
		return "is none that it asks for"
	}
	return ""
}

// pinned is the one node that a pod is for, as one of a DaemonSet is; "": there may be others.
func pinned(p *corev1.Pod) string {
	if !asksForNodes(p) || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil ||
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(t.MatchFields) == 1 && len(t.MatchFields[0].Values) == 1 {
			return t.MatchFields[0].Values[0]
		}
	}
	return ""
}

// unpooledBy finds which requirement of a pod no pool of Karpenter's meets: key K, K In [a] not in K In [b].
var unpooledBy = pattern.New(`incompatible with nodepool "([a-z0-9.-]+)".*?incompatible requirements, key ([^,]+), ` +
	`\S+ In \[([^\]]+)\] not in`)

// tooSmall finds a pool of Karpenter's none of whose types of machines has room, and what it allows of them.
var tooSmall = pattern.New(`incompatible with nodepool "([a-z0-9.-]+)".*?no instance type (?:satisfied|has enough|which)` +
	`(?:.*?(node\.kubernetes\.io/instance-type|[a-z./-]+/instance-(?:cpu|size|family|category)) In \[([^\]]+)\])?`)

// overPool finds the pool of Karpenter's that may have no more.
var overPool = pattern.New(`exceed limits for nodepool:? "([a-z0-9.-]+)"`)

// unpooled has the pool of nodes offer what a pod asks for, where the autoscaler says that it does not.
func unpooled(w *converge.World, f *converge.Finding, p *corev1.Pod) {
	m := unpooledBy.FindStringSubmatch(f.Aside)
	if over := overPool.FindStringSubmatch(f.Aside); over != nil {
		if says, command := enlarged(w, p, over[1]); command != "" {
			f.Says += says
			f.Advice = append([]string{"raise the limits of that pool of nodes: " + command}, f.Advice[min(1, len(f.Advice)):]...)
		}
		return
	}
	if small := tooSmall.FindStringSubmatch(f.Aside); m == nil && small != nil {
		allows := ""
		if small[2] != "" {
			allows = ", which allows " + small[2] + " " + small[3] + " alone,"
		}
		wider := "let the node pool " + small[1] + allows + " have types of machines that have all that (spec.template.spec.requirements), " +
			"or ask for less: kubectl edit nodepools.karpenter.sh " + small[1]
		f.Advice = append([]string{wider}, f.Advice[min(1, len(f.Advice)):]...)
		return
	}
	if m == nil {
		return
	}
	if command := offered(w, m[1], m[2], m[3]); command != "" {
		f.Advice = []string{"have the node pool " + m[1] + " offer " + m[2] + " " + m[3] + ", or leave that out of what the pod asks for: " +
			command}
		return
	}
	f.Advice = []string{"have the node pool " + m[1] + " offer " + m[2] + " " + m[3] + " (spec.template.spec.requirements), or leave that " +
		"out of what the pod asks for: kubectl edit nodepools.karpenter.sh " + m[1]}
}

// coming has the node that Karpenter makes for a pod as the cause, if that is not well.
func coming(f *converge.Finding, w *converge.World, p *corev1.Pod) {
	e := w.Scaled(p.UID)
	if e == nil || len(f.Below) > 0 {
		return
	}
	k, name := general.KindNamed(w, "karpenter.sh", "NodeClaim"), words.Between(e.Message+" ", "schedule on: nodeclaim/", " ")
	if k == nil || name == "" {
		return
	}
	r := converge.Ref{Kind: k, NS: p.Namespace, Name: name}
	if s := w.Step(r); s != nil && s.Cause != "NotFound" {
		f.Below, f.State = []converge.Ref{r}, converge.Waiting
	}
}

// spare is the node that would take a pod if it were not cordoned or, of ill ones, if it were well; nil: none would, or nobody here knows.
func spare(w *converge.World, p *corev1.Pod, ill bool) *corev1.Node {
	if !w.Sees(kinds.Pods, "") {
		return nil
	}
	asks := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range kloop.List(w.Read, kinds.Nodes, "") {
		at := *n
		if ill { // as it is without what it is marked with for that
			at.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
				return strings.HasPrefix(t.Key, "node.kubernetes.io/")
			})
		}
		marked := len(at.Spec.Taints) < len(n.Spec.Taints)
		if n.Spec.Unschedulable == ill || marked != ill || fixed(p, asks, &at) != "" || w.Health(kinds.Nodes, n).Converged() == ill {
			continue
		}
		there := thereOn(w, n.Name)
		if there.holds(p, n) && !slices.ContainsFunc(there.pods, func(o *corev1.Pod) bool { return shuns(p, o) }) {
			return n
		}
	}
	return nil
}

// A load is the pods that run on a node, without those that have ended.
type load struct {
	pods        []*corev1.Pod
	cpu, memory resource.Quantity // that they ask for
}

// loads are those of nodes by their names.
type loads map[string]*load

// thereOn is the load of a node. It is worked out once for all pods that wait.
func thereOn(w *converge.World, node string) *load {
	known := converge.Kept[loads](w)
	if there := (*known)[node]; there != nil {
		return there
	}
	there := &load{}
	for obj := range w.Read.ByField(kinds.Pods, "spec.nodeName", node) {
		if o := kloop.As[*corev1.Pod](obj); !core.Terminal(o) {
			there.pods = append(there.pods, o)
			there.cpu.Add(asksFor(o, corev1.ResourceCPU))
			there.memory.Add(asksFor(o, corev1.ResourceMemory))
		}
	}
	if *known == nil {
		*known = loads{}
	}
	(*known)[node] = there
	return there
}

// holds says that a node with this load has room for a pod.
func (l *load) holds(p *corev1.Pod, n *corev1.Node) bool {
	cpu, memory := asksFor(p, corev1.ResourceCPU), asksFor(p, corev1.ResourceMemory)
	cpu.Add(l.cpu)
	memory.Add(l.memory)
	return cpu.Cmp(n.Status.Allocatable[corev1.ResourceCPU]) <= 0 && memory.Cmp(n.Status.Allocatable[corev1.ResourceMemory]) <= 0
}

// shuns says that a pod must not be on one node with another, of its namespace.
func shuns(p, o *corev1.Pod) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil || p.Namespace != o.Namespace {
		return false
	}
	list := p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range list {
		if sel, err := metav1.LabelSelectorAsSelector(list[i].LabelSelector); err == nil && sel.Matches(labels.Set(o.Labels)) {
			return true
		}
	}
	return false
}

// largest is the node that can give most of a resource to a pod that it does not keep off; nil when none is known. It says
// of another, which has as much as the pod wants, what keeps the pod off it.
func largest(l *converge.Look, p *corev1.Pod, name corev1.ResourceName, want resource.Quantity) (best *corev1.Node, most resource.Quantity,
	other string) {
	asks := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range kloop.List(l.Read, kinds.Nodes, "") {
		if off := barrier(p, asks, n); off != "" {
			if q := n.Status.Allocatable[name]; q.Cmp(want) >= 0 && other == "" {
				other = n.Name + ", which has " + q.String() + ", " + off
			}
			continue
		}
		if q := n.Status.Allocatable[name]; best == nil || q.Cmp(most) > 0 {
			best, most = n, q
		}
	}
	return best, most, other
}

// size adds numbers to a pod that fits nowhere for want of a resource: what it asks for, and whether any node, were it empty, could
// give that.
func size(l *converge.Look, f *converge.Finding, p *corev1.Pod, name corev1.ResourceName) {
	want := asksFor(p, name)
	n, most, other := largest(l, p, name, want)
	unknown := most.IsZero() && other == "" && strings.Contains(string(name), "/") // no node ever had such: another rule speaks of it
	if n == nil || want.IsZero() || unknown || p.Spec.Resources != nil {
		return
	}
	if want.Cmp(most) <= 0 {
		f.Says += "; it asks for " + want.String() + ", and node " + n.Name + " would have " + most.String() + " if it were empty" +
			biggest(l.World, n.Name, p.Namespace, name)
		if at, free := roomFor(l.World, p, name); at != nil && free.Sign() > 0 && free.Cmp(want) < 0 {
			f.Says += "; " + whole(name, free) + " is free on " + at.Name
			f.Advice = []string{lower(l, p, name, "remove other pods, add a node, or lower the pod's request to what is free there", free)}
		}
		return
	}
	_, free := roomFor(l.World, p, name)
	f.Advice = []string{lower(l, p, name, "lower the pod's request of "+string(name)+" to no more than "+most.String()+
		", or add a larger node", free)}
	if most.IsZero() {
		f.Advice = []string{"have a node that has " + string(name) + ", or leave the request out"}
	}
	if other != "" {
		f.Says += "; it asks for " + want.String() + ", and the largest node that takes it, " + n.Name + ", has " + most.String() + "; " +
			other
		if node, _, cordoned := strings.Cut(other, ", which has "); cordoned && strings.HasSuffix(other, "is cordoned") {
			f.Advice = append([]string{"kubectl uncordon " + node}, f.Advice...)
		} else if _, taint, is := strings.Cut(other, "has the taint "); is {
			node, _, _ := strings.Cut(other, ", ")
			f.Advice = append([]string{cmp.Or(toleration(l, p, node), "give the pod a toleration of "+taint+", if it is meant for that node")},
				f.Advice...)
		}
		return
	}
	f.Says += "; it asks for " + want.String() + ", and the largest node, " + n.Name + ", has " + most.String() +
		": no node of this size can ever take it"
}

// fullest tells how many pods there are on the node that takes most, of those that a pod could have; "": nobody here knows.
func fullest(w *converge.World, p *corev1.Pod) string {
	asks, best, most := nodeaffinity.GetRequiredNodeAffinity(p), "", int64(0)
	for _, n := range kloop.List(w.Read, kinds.Nodes, "") {
		if takes := n.Status.Allocatable.Pods().Value(); takes > most && barrier(p, asks, n) == "" {
			best, most = n.Name, takes
		}
	}
	if best == "" || !w.Sees(kinds.Pods, "") {
		return ""
	}
	return fmt.Sprintf("; node %s has %d, and takes %d", best, len(thereOn(w, best).pods), most)
}

// heaviestPods are pods by node, namespace and resource.
type heaviestPods map[[3]string]string

// biggest says which pod asks for most of a resource on a node; "": none does. It is worked out once for all pods of a namespace.
func biggest(w *converge.World, node, ns string, name corev1.ResourceName) (says string) {
	key := [3]string{node, ns, string(name)}
	heaviest := converge.Kept[heaviestPods](w)
	if says, is := (*heaviest)[key]; is {
		return says
	}
	who, most := "", resource.Quantity{}
	for obj := range w.Read.ByField(kinds.Pods, "spec.nodeName", node) {
		o := kloop.As[*corev1.Pod](obj)
		is := "pod/" + o.Name
		if o.Namespace != ns {
			is = "a pod of another namespace"
		}
		q := asksFor(o, name)
		if q.IsZero() || core.Terminal(o) {
			continue
		}
		if more := q.Cmp(most); more > 0 || more == 0 && is < who {
			who, most = is, q
		}
	}
	if who != "" {
		says = "; of what is there " + who + " asks for most: " + most.String()
	}
	if *heaviest == nil {
		*heaviest = heaviestPods{}
	}
	(*heaviest)[key] = says
	return says
}

// unlabelled says which label of a pod's node selector no node has, and what they have in its place; "": each is had by some node.
func unlabelled(w *converge.World, p *corev1.Pod) string {
	if !w.Sees(kinds.Nodes, "") {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		want, others := p.Spec.NodeSelector[key], nodeLabels(w, key)
		switch {
		case slices.Contains(others, want):
		case len(others) == 0:
			if other := keyLike(w, key, want); other != "" {
				return "; no node has the label " + key + ": they have " + other + "=" + want
			}
			return "; no node has the label " + key
		default:
			return "; no node has " + key + "=" + want + ": they have " + words.List(others, 3)
		}
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return unmet(w, a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	}
	return ""
}

// unmet says which label of the first term none of the nodes has with a value that it asks for, and what they have.
func unmet(w *converge.World, terms []corev1.NodeSelectorTerm) string {
	if len(terms) == 0 {
		return ""
	}
	for i := range terms[0].MatchExpressions {
		want := &terms[0].MatchExpressions[i]
		has := nodeLabels(w, want.Key)
		if want.Operator != corev1.NodeSelectorOpIn || slices.ContainsFunc(has,
			func(v string) bool { return slices.Contains(want.Values, v) }) {
			continue
		}
		return "; no node has " + want.Key + "=" + words.List(want.Values, 3) + ": they have " + cmp.Or(words.List(has, 3), "no such label")
	}
	return ""
}

// labelValues are values that nodes have of a label.
type labelValues map[string][]string

// nodeLabels are the values that nodes have of a label, sorted. They are gathered once: there may be many nodes, and many pods that ask.
func nodeLabels(w *converge.World, key string) []string {
	labelled := converge.Kept[labelValues](w)
	if values, is := (*labelled)[key]; is {
		return values
	}
	var values []string
	for _, n := range kloop.List(w.Read, kinds.Nodes, "") {
		if value, is := n.Labels[key]; is {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	if *labelled == nil {
		*labelled = labelValues{}
	}
	(*labelled)[key] = slices.Compact(values)
	return (*labelled)[key]
}

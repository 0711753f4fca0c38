package live

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Kinds are those that Gather reads.
var Kinds = []resource.Kind{kinds.Nodes, kinds.Pods, kinds.Deployments, kinds.StatefulSets, kinds.DaemonSets, kinds.Events}

// maxEvents bounds the events that a frame can show.
const maxEvents = 200

// Gather fills nodes, workloads and events from what is known of the namespace ns, "" of all.
func (s *State) Gather(read resource.Reader, ns string) {
	s.Nodes, s.Work, s.Events = nodesIn(read), workIn(read, ns), eventsIn(read, ns)
}

// nodesIn lists nodes, the fullest first.
func nodesIn(read resource.Reader) (list []Node) {
	type use struct {
		pods        int
		cpu, memory int64
	}
	asked := map[string]*use{}
	for _, p := range resource.List(read, kinds.Pods, "") {
		if p.Spec.NodeName == "" || core.Terminal(p) {
			continue
		}
		u := asked[p.Spec.NodeName]
		if u == nil {
			u = &use{}
			asked[p.Spec.NodeName] = u
		}
		u.pods++
		for i := range p.Spec.Containers {
			r := p.Spec.Containers[i].Resources.Requests
			u.cpu += r.Cpu().MilliValue()
			u.memory += r.Memory().Value()
		}
	}
	for _, n := range resource.List(read, kinds.Nodes, "") {
		u := asked[n.Name]
		if u == nil {
			u = &use{}
		}
		a := n.Status.Allocatable
		list = append(list, Node{Name: n.Name, State: stateOf(n), Pods: u.pods, Room: int(a.Pods().Value()),
			CPU: share(u.cpu, a.Cpu().MilliValue()), Memory: share(u.memory, a.Memory().Value())})
	}
	coldsort.Func(list, func(a, b Node) int {
		return cmp.Or(strings.Compare(a.State, b.State), cmp.Compare(max(b.CPU, b.Memory), max(a.CPU, a.Memory)), strings.Compare(a.Name, b.Name))
	})
	return list
}

func share(of, all int64) float64 {
	if all <= 0 {
		return 0
	}
	return float64(of) / float64(all)
}

func stateOf(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			if n.Spec.Unschedulable {
				return "Cordoned"
			}
			return "Ready"
		}
	}
	return "NotReady"
}

// workIn lists workloads, those that are not there yet first.
func workIn(read resource.Reader, ns string) (list []Workload) {
	add := func(kind string, obj resource.Object, want, updated, ready int32, seen int64) {
		list = append(list, Workload{Name: obj.GetNamespace() + "/" + kind + "/" + obj.GetName(), Want: want, Updated: updated, Ready: ready,
			Done: updated >= want && ready >= want && seen >= obj.GetGeneration()})
	}
	for _, d := range resource.List(read, kinds.Deployments, ns) {
		add("deployment", d, wanted(d.Spec.Replicas), d.Status.UpdatedReplicas, d.Status.AvailableReplicas, d.Status.ObservedGeneration)
	}
	for _, st := range resource.List(read, kinds.StatefulSets, ns) {
		updated := st.Status.UpdatedReplicas
		if st.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			updated = st.Status.Replicas
		}
		add("statefulset", st, wanted(st.Spec.Replicas), updated, st.Status.AvailableReplicas, st.Status.ObservedGeneration)
	}
	for _, d := range resource.List(read, kinds.DaemonSets, ns) {
		u := &d.Status
		add("daemonset", d, u.DesiredNumberScheduled, u.UpdatedNumberScheduled, u.NumberAvailable, u.ObservedGeneration)
	}
	coldsort.Func(list, func(a, b Workload) int {
		if a.Done != b.Done {
			if b.Done {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

func wanted(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// eventsIn are the newest events.
func eventsIn(read resource.Reader, ns string) (list []Event) {
	for _, e := range resource.List(read, kinds.Events, ns) {
		at := e.LastTimestamp.Time
		if at.IsZero() {
			at = e.EventTime.Time
		}
		if at.IsZero() {
			at = e.CreationTimestamp.Time
		}
		o := e.InvolvedObject
		list = append(list, Event{At: at, Warning: e.Type == corev1.EventTypeWarning,
			Object: o.Namespace + "/" + strings.ToLower(o.Kind) + "/" + o.Name,
			Reason: e.Reason, Text: e.Message})
	}
	coldsort.Func(list, func(a, b Event) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Object, b.Object)) })
	return list[:min(len(list), maxEvents)]
}

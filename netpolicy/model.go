package netpolicy

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// A Model is all that policies are judged by, at one revision. It does not change; any number of goroutines may read it.
type Model struct {
	pods       []*pod
	byAddr     map[netip.Addr]*pod
	byLabel    map[string]map[string][]*pod // namespace, then key=value
	inSpace    map[string][]*pod
	namespaces []namespace
	policies   map[string][]*policy // by namespace, by name
	nodes      map[string][]netip.Addr
	compiled   Compiled
}

// Compiled holds policies that were read: the objects never change, and reading them is most of what a model costs.
type Compiled map[*networkingv1.NetworkPolicy]*policy

type namespace struct {
	name   string
	labels labels.Set
}

// A pod is one that policies apply to: it has an address of its own and has not ended.
type pod struct {
	*corev1.Pod
	addrs []netip.Addr
}

// Upcoming are pods of this node whose status does not show their addresses yet, by UID: their sandboxes were just made. It may show those
// of a sandbox before, as after a restart of the machine.
type Upcoming map[types.UID]Sandbox

// A Sandbox is a pod with the addresses that it got.
type Sandbox struct {
	Pod   *corev1.Pod
	Addrs []netip.Addr
}

// NewModel reads the cluster. It is pure: the same snapshot gives the same model. was holds policies that an earlier model has
// compiled, or nil.
func NewModel(read resource.Reader, upcoming Upcoming, was Compiled) *Model {
	c := Cluster{Namespaces: resource.List(read, kinds.Namespaces, ""), Nodes: resource.List(read, kinds.Nodes, ""),
		Pods: resource.List(read, kinds.Pods, ""), Policies: resource.List(read, kinds.NetworkPolicies, "")}
	for _, u := range upcoming {
		if was := resource.Get(read, kinds.Pods, u.Pod.Namespace, u.Pod.Name); was == nil || was.UID != u.Pod.UID {
			c.Pods = append(c.Pods, u.Pod) // the copy at hand does not have the pod yet
		}
	}
	return c.model(upcoming, was)
}

// A Cluster is all that a Model is made from. To judge one connection it is enough to have both ends: their pods, namespaces and nodes,
// and the policies of both namespaces.
type Cluster struct {
	Namespaces []*corev1.Namespace
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Policies   []*networkingv1.NetworkPolicy
}

// Model reads the objects once, for many questions.
func (c Cluster) Model() *Model { return c.model(nil, nil) }

func (c Cluster) model(upcoming Upcoming, was Compiled) *Model {
	m := &Model{byAddr: map[netip.Addr]*pod{}, byLabel: map[string]map[string][]*pod{}, inSpace: map[string][]*pod{},
		policies: map[string][]*policy{}, nodes: map[string][]netip.Addr{}, compiled: make(Compiled, len(c.Policies))}
	for _, n := range c.Namespaces {
		m.namespaces = append(m.namespaces, namespace{n.Name, n.Labels})
	}
	coldsort.Func(m.namespaces, func(a, b namespace) int { return strings.Compare(a.name, b.name) })
	for _, n := range c.Nodes {
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				m.nodes[n.Name] = append(m.nodes[n.Name], ip.Unmap())
			}
		}
	}
	for _, p := range c.Pods {
		m.addPod(p, addresses(p, upcoming[p.UID].Addrs))
	}
	for _, p := range c.Policies {
		if m.compiled[p] = was[p]; was[p] == nil {
			m.compiled[p] = compile(p)
		}
		m.policies[p.Namespace] = append(m.policies[p.Namespace], m.compiled[p])
	}
	return m
}

// addresses are the pod's own: those of a sandbox that was just made, or that its status shows. Pods that have ended have none, as
// theirs may belong to others by now, nor have pods on the host's network.
func addresses(p *corev1.Pod, upcoming []netip.Addr) (list []netip.Addr) {
	if p.Spec.HostNetwork || core.Terminal(p) {
		return nil
	}
	if len(upcoming) > 0 {
		return upcoming
	}
	return shown(p)
}

// shown are the addresses that a pod's status shows.
func shown(p *corev1.Pod) (list []netip.Addr) {
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			list = append(list, a.Unmap())
		}
	}
	return list
}

func (m *Model) addPod(obj *corev1.Pod, addrs []netip.Addr) {
	if len(addrs) == 0 {
		return
	}
	p := &pod{obj, addrs}
	m.pods = append(m.pods, p)
	m.inSpace[p.Namespace] = append(m.inSpace[p.Namespace], p)
	for _, a := range addrs {
		m.byAddr[a] = p
	}
	index := m.byLabel[p.Namespace]
	if index == nil {
		index = map[string][]*pod{}
		m.byLabel[p.Namespace] = index
	}
	for k, v := range p.Labels {
		index[k+"="+v] = append(index[k+"="+v], p)
	}
}

// A selector is a label selector with the one of its requirements that an index can answer.
type selector struct {
	labels.Selector
	index string // key=value that every match carries; "": look at all
}

func newSelector(s *metav1.LabelSelector) selector {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		parsed = labels.Nothing() // validation lets none such in; what can't be read selects nothing
	}
	index := ""
	reqs, _ := parsed.Requirements()
	for _, r := range reqs {
		if v := r.ValuesUnsorted(); len(v) == 1 && slices.Contains(indexed, string(r.Operator())) {
			index = r.Key() + "=" + v[0]
			break
		}
	}
	return selector{parsed, index}
}

// indexed are the operators that a value's list of pods answers.
var indexed = []string{"=", "==", "in"}

// selected are the pods of a namespace that a selector matches.
func (m *Model) selected(ns string, s selector) (list []*pod) {
	from := m.inSpace[ns]
	if s.index != "" {
		from = m.byLabel[ns][s.index]
	}
	if s.Empty() {
		return from
	}
	for _, p := range from {
		if s.Matches(labels.Set(p.Labels)) {
			list = append(list, p)
		}
	}
	return list
}

// namespaceLabels are the labels of a namespace; nil for one that is not there.
func (m *Model) namespaceLabels(name string) labels.Set {
	i, found := slices.BinarySearchFunc(m.namespaces, name, func(n namespace, name string) int { return strings.Compare(n.name, name) })
	if !found {
		return nil
	}
	return m.namespaces[i].labels
}

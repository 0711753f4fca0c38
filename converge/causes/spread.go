package causes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// spreadMismatch tells which constraint can't be met whatever pods there are: by a label that no node has, or by too few domains.
func spreadMismatch(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	f := unsuitable("topology spread constraints",
		"add a node where there are fewest of its pods, raise maxSkew, or let the constraint be soft: whenUnsatisfiable: ScheduleAnyway",
		"topology spread constraints")(l, p, text)
	if f == nil || !l.Sees(kinds.Nodes, "") {
		return f
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		domains := nodeLabels(l.World, c.TopologyKey)
		least := int(ptr.Deref(c.MinDomains, 1))
		switch {
		case c.WhenUnsatisfiable != corev1.DoNotSchedule || len(domains) >= least:
			continue
		case len(domains) == 0:
			f.Says += "; no node has the label " + c.TopologyKey
			f.Advice = []string{soft(l, c.TopologyKey), "label the nodes with " + c.TopologyKey +
				", or correct the constraint: kubectl get nodes --show-labels"}
		default:
			f.Says += fmt.Sprintf("; it wants %d domains of %s (minDomains), and the nodes are in %d: %s", least, c.TopologyKey,
				len(domains),
				words.List(domains, 3))
			f.Advice = []string{retemplate(l, fmt.Sprintf("add a node with another %s, or lower minDomains to %d", c.TopologyKey, len(domains)),
				fmt.Sprintf(`{"topologySpreadConstraints":[{"topologyKey":"%s","whenUnsatisfiable":"DoNotSchedule","minDomains":%d}]}`,
					c.TopologyKey, len(domains)))}
		}
		return f
	}
	barred(l, f, p, text)
	scarce(l, f, p)
	if strings.Contains(text, "missing required label") {
		f.Advice[0] = "label the nodes with the topologyKey that the constraint names: kubectl get nodes --show-labels"
	}
	if at := slices.IndexFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}); at >= 0 && len(f.Advice) == 1 {
		f.Advice = append(f.Advice, "or "+soft(l, p.Spec.TopologySpreadConstraints[at].TopologyKey))
	}
	return f
}

// barred tells of a domain that counts though its nodes have taints that keep the pod off: such a domain is always the one with fewest
// pods.
func barred(l *converge.Look, f *converge.Finding, p *corev1.Pod, text string) {
	if !strings.Contains(text, "untolerated taint") {
		return
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		honors := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || honors {
			continue
		}
		asks, open, shut := nodeaffinity.GetRequiredNodeAffinity(p), map[string]bool{}, []*corev1.Node(nil)
		for _, n := range nodesAsked(l.World, p) {
			if fixed(p, asks, n) == "" {
				open[n.Labels[c.TopologyKey]] = true
			} else {
				shut = append(shut, n)
			}
		}
		for _, n := range shut {
			if domain := n.Labels[c.TopologyKey]; !open[domain] && domain != "" {
				f.Says += "; " + c.TopologyKey + " " + domain + " counts, and node " + n.Name + " there " + fixed(p, asks, n)
				f.Advice[0] = retemplate(l, "leave such nodes out of the count", `{"topologySpreadConstraints":[{"topologyKey":"`+c.TopologyKey+
					`","whenUnsatisfiable":"DoNotSchedule","nodeTaintsPolicy":"Honor"}]}`)
				if t := toleration(l, p, n.Name); t != "" {
					f.Advice = append(f.Advice, "or "+t)
				}
				return
			}
		}
	}
}

// scarce tells of the domain that is to have the next pod, as it has fewest, and why none of its nodes can take it: for want of room, or as
// they are cordoned.
func scarce(l *converge.Look, f *converge.Finding, p *corev1.Pod) {
	if !l.Sees(kinds.Pods, "") || len(f.Advice) != 1 {
		return
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		sel, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || err != nil {
			continue
		}
		to := nextTo(l.World, p, c.TopologyKey, sel)
		for i, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if n, free := to.most[i].node, to.most[i].free.DeepCopy(); n != nil && free.Cmp(asksFor(p, name)) < 0 {
				f.Says += "; the next has to go to " + to.domain + ", where it has fewest, and " + whole(name, free) + " of " + string(name) +
					" is free there, on " + n.Name + ", of " + whole(name, asksFor(p, name)) + " that it asks for"
				f.Advice = []string{lower(l, p, name, "have it ask for what is free there, or have a larger node there", free),
					"or " + soft(l, c.TopologyKey)}
				return
			}
		}
		for _, n := range to.nodes {
			if n.Spec.Unschedulable && fixed(p, nodeaffinity.GetRequiredNodeAffinity(p), n) == "" {
				f.Says += "; the next has to go to " + to.domain + ", where it has fewest, and node " + n.Name + " there is cordoned"
				f.Advice = []string{"kubectl uncordon " + n.Name, "or " + soft(l, c.TopologyKey)}
				return
			}
		}
	}
}

// A goal is the domain to which the next pod of a workload has to go, its nodes, and those of them with most free processors and memory.
type goal struct {
	domain string
	nodes  []*corev1.Node
	most   [2]room
}

// goals are those of workloads, by the UID of who made the pods and the key of the domains: such pods wait by the thousand.
type goals map[[2]string]goal

// nextTo is the goal of a pod, which is worked out once for all pods of a set.
func nextTo(w *converge.World, p *corev1.Pod, key string, sel labels.Selector) (to goal) {
	by, known := metav1.GetControllerOfNoCopy(p), converge.Kept[goals](w)
	shared := by != nil && (by.Kind == "ReplicaSet" || by.Kind == "StatefulSet" || by.Kind == "Job")
	if shared {
		if to, is := (*known)[[2]string{string(by.UID), key}]; is {
			return to
		}
	}
	to.domain, to.nodes = fewest(w, p, key, sel)
	for i, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		to.most[i].node, to.most[i].free = freest(w, p, name, to.nodes)
	}
	if shared {
		if *known == nil {
			*known = goals{}
		}
		(*known)[[2]string{string(by.UID), key}] = to
	}
	return to
}

// soft is advice to let a constraint be no more than a wish.
func soft(l *converge.Look, key string) string {
	return retemplate(l, "let it go elsewhere, if need be", `{"topologySpreadConstraints":[{"topologyKey":"`+key+
		`","whenUnsatisfiable":"ScheduleAnyway"}]}`)
}

// fewest is the domain with fewest pods that a constraint counts, in words, and its nodes; of several that have as few, the first.
func fewest(w *converge.World, p *corev1.Pod, key string, sel labels.Selector) (domain string, nodes []*corev1.Node) {
	counts, in := map[string]int{}, map[string][]*corev1.Node{}
	for _, n := range nodesAsked(w, p) {
		at, is := n.Labels[key]
		if !is {
			continue
		}
		in[at] = append(in[at], n)
		for _, o := range thereOn(w, n.Name).pods {
			if o.Namespace == p.Namespace && sel.Matches(labels.Set(o.Labels)) {
				counts[at]++
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(in)) {
		if nodes == nil || counts[at] < counts[domain] {
			domain, nodes = at, in[at]
		}
	}
	return key + " " + domain, nodes
}

// freest is the node of some on which most of a resource is free, of those that a pod could have; nil: it could have none.
func freest(w *converge.World, p *corev1.Pod, name corev1.ResourceName, of []*corev1.Node) (best *corev1.Node, free apiresource.Quantity) {
	asks := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range of {
		if barrier(p, asks, n) != "" {
			continue
		}
		left, there := n.Status.Allocatable[name].DeepCopy(), thereOn(w, n.Name)
		if name == corev1.ResourceCPU {
			left.Sub(there.cpu)
		} else {
			left.Sub(there.memory)
		}
		if best == nil || left.Cmp(free) > 0 {
			best, free = n, left
		}
	}
	return best, free
}

// hostPorts are the ports of its node that a pod takes, with their protocols.
func hostPorts(p *corev1.Pod) (ports []string) {
	for _, port := range podspec.HostPorts(p) {
		ports = append(ports, fmt.Sprintf("%d/%s", port.HostPort, cmp.Or(string(port.Protocol), "TCP")))
	}
	return ports
}

// portTaken names who has the port. A daemon set that starts the new pod of a node before the old one is gone gets in its own way.
func portTaken(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	f := unsuitable("host port", "leave hostPort out, or have as many nodes as pods", "free ports")(l, p, text)
	if f == nil {
		return nil
	}
	if without := portless(p); without != "" {
		f.Advice[0] = retemplate(l, f.Advice[0], without)
	}
	want := hostPorts(p)
	owner := metav1.GetControllerOfNoCopy(p)
	for _, other := range resource.List(l.Read, kinds.Pods, "") {
		if other.Spec.NodeName == "" || core.Terminal(other) {
			continue
		}
		i := slices.IndexFunc(hostPorts(other), func(port string) bool { return slices.Contains(want, port) })
		if i < 0 {
			continue
		}
		who := "a pod of another namespace"
		if by := metav1.GetControllerOfNoCopy(other); other.Namespace == p.Namespace {
			who = "pod/" + other.Name
		} else if l.Outside() && by != nil && by.Kind == "DaemonSet" { // who asks has read it
			who = "pod/" + other.Name + " of daemonset/" + by.Name + " in namespace " + other.Namespace
			f.Advice = []string{"if that one is no longer needed: kubectl delete daemonset " + by.Name + " -n " + other.Namespace,
				edited(l, "or give this one another port")}
		}
		f.Says += "; " + who + " has port " + hostPorts(other)[i] + " on " + other.Spec.NodeName
		portElsewhere(l, f, p, other.Spec.NodeName)
		if by := metav1.GetControllerOfNoCopy(other); owner != nil && by != nil && owner.UID == by.UID && owner.Kind == "DaemonSet" {
			f.Says += ", and is to go only when this one runs (maxSurge)"
			f.Advice = []string{"kubectl patch daemonset " + owner.Name + " -n " + p.Namespace +
				` -p '{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}'`}
		}
		return f
	}
	return f
}

// portless is the patch of a template's spec that leaves the ports of the node out; "": the pod has all of the node's network.
func portless(p *corev1.Pod) string {
	if p.Spec.HostNetwork {
		return ""
	}
	var list []any
	for i := range p.Spec.Containers {
		var ports []any
		for _, port := range p.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				ports = append(ports, map[string]any{"containerPort": port.ContainerPort, "hostPort": nil})
			}
		}
		if len(ports) > 0 {
			list = append(list, map[string]any{"name": p.Spec.Containers[i].Name, "ports": ports})
		}
	}
	if len(list) == 0 {
		return ""
	}
	return converge.JSON(map[string]any{"containers": list})
}

// portElsewhere advises on the node that a pod could have for its port, if something else did not keep it off.
func portElsewhere(l *converge.Look, f *converge.Finding, p *corev1.Pod, not string) {
	asks := nodeaffinity.GetRequiredNodeAffinity(p)
	if !l.Sees(kinds.Pods, "") {
		return
	}
	for _, n := range resource.List(l.Read, kinds.Nodes, "") {
		off := barrier(p, asks, n)
		if n.Name == not || off == "" || slices.ContainsFunc(thereOn(l.World, n.Name).pods, func(o *corev1.Pod) bool {
			return slices.ContainsFunc(hostPorts(o), func(port string) bool { return slices.Contains(hostPorts(p), port) })
		}) {
			continue
		}
		f.Says += "; " + n.Name + ", where it is free, " + off
		if key, is := strings.CutPrefix(off, "has the taint "); is {
			f.Advice = []string{"if it may run there, tolerate that taint: " + key, "or give it another hostPort, or none"}
		} else if off == "is cordoned" {
			f.Advice = []string{"kubectl uncordon " + n.Name, "or give it another hostPort, or none"}
		}
		return
	}
}

// volumesApart: each of the pod's volumes can be used from some nodes, and all of them from none.
func volumesApart(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.Contains(text, "volume node affinity conflict") && !strings.Contains(text, "PersistentVolume's node affinity") {
		return nil
	}
	left := resource.List(l.Read, kinds.Nodes, "")
	var has []string
	for _, name := range core.ClaimNames(p) {
		v := volumeOfClaim(l, p.Namespace, name)
		if v == nil || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
			continue
		}
		want, err := nodeaffinity.NewNodeSelector(v.Spec.NodeAffinity.Required)
		if err != nil {
			continue
		}
		off := func(n *corev1.Node) bool { return !want.Match(n) }
		if len(left) > 0 && slices.ContainsFunc(resource.List(l.Read, kinds.Nodes, ""), func(n *corev1.Node) bool { return !off(n) }) {
			has, left = append(has, name), slices.DeleteFunc(left, off)
		}
	}
	if len(has) < 2 || len(left) > 0 {
		return nil
	}
	return &converge.Finding{Says: "uses volumes that no node reaches together, those of the claims " + words.List(has, 4),
		State: converge.Blocked,
		Waits: converge.ForName("Node", "that reaches all its volumes"), Next: converge.PersonDoes("makes claims whose volumes lie in one place"),
		Advice: []string{"copy what one of them has to a new claim; volumes of a class of volumeBindingMode WaitForFirstConsumer " +
			"come to lie together when one pod uses them from the start"}}
}

// RestOfDevices tells of a claim that has no devices yet, and of the pod that waits for them.
func RestOfDevices(w *converge.World, c *resourcev1.ResourceClaim) (says, advice string) {
	if c.Status.Allocation != nil {
		return "", ""
	}
	says = "gets its devices when a pod that uses it is placed"
	for _, p := range resource.List(w.Read, kinds.Pods, c.Namespace) {
		for _, r := range p.Spec.ResourceClaims {
			if s := w.Explain(kinds.Pods, p); ptr.Deref(r.ResourceClaimName, "") == c.Name && s != nil {
				return says + "; " + s.Gap().Verdict, "kubectl get resourceslices"
			}
		}
	}
	return says, ""
}

package causes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// What network policies do not allow is dropped: who connects hears nothing, and runs out of time.

var (
	// unanswered finds words by which nobody answered at all.
	unanswered = pattern.New(`(?i)timed? ?out|deadline exceeded|no route to host`)
	// askedAt finds what can be an address or the name of a service, and the port that was asked there.
	askedAt = pattern.New(`(https://)?\b([a-z0-9][a-z0-9.-]*[a-z0-9])(?::(\d{1,5}))?\b`)
)

// A way is one from a pod, nil for the API server, to a port of another.
type way struct {
	from, to *corev1.Pod
	port     int32
}

// severed tells of a network policy that cuts the way to what a text says that it can't reach, and how to open it; "": none does.
func severed(l *converge.Look, from *corev1.Pod, text string) (says string, advice []string) {
	if !unanswered.MatchString(text) || !l.Sees(kinds.Namespaces, "") || !anyPolicy(l.World) {
		return "", nil
	}
	for _, m := range askedAt.FindAllStringSubmatch(text, 100) {
		asked, _ := strconv.Atoi(m[3])
		if asked == 0 && m[1] != "" {
			asked = 443
		}
		v, ok := wayTo(l.World, from, m[2], int32(asked))
		if !ok || !l.Sees(kinds.NetworkPolicies, v.to.Namespace) || from != nil && !l.Sees(kinds.NetworkPolicies, from.Namespace) {
			continue
		}
		if n, near := cutting(l.World, v, networkingv1.PolicyTypeIngress); n != nil {
			who := "it"
			if from == nil {
				who = "the API server"
			}
			return "networkpolicy/" + n.Name + " in namespace " + n.Namespace + " does not let " + who + " connect to port " + fmt.Sprint(v.port) +
				" of pod/" + v.to.Name, opened(l, v, n, near, "ingress")
		}
		if from == nil {
			continue
		}
		if n, near := cutting(l.World, v, networkingv1.PolicyTypeEgress); n != nil {
			return "networkpolicy/" + n.Name + " does not let it connect to port " + fmt.Sprint(v.port) + " of pod/" + v.to.Name +
				" in namespace " + v.to.Namespace, opened(l, v, n, near, "egress")
		}
	}
	return "", nil
}

// anyPolicy says that there is a network policy at all.
func anyPolicy(w *converge.World) bool {
	for range w.Read.Each(kinds.NetworkPolicies, "") {
		return true
	}
	return false
}

// wayTo is the way to a host, which is a service or the address of a service or pod; false: it is none, or its pods are not known.
func wayTo(w *converge.World, from *corev1.Pod, host string, port int32) (v way, ok bool) {
	var s *corev1.Service
	if _, err := netip.ParseAddr(host); err == nil {
		at := addressesOf(w)
		if p := at.pods[host]; p != nil {
			return way{from, p, port}, port != 0
		}
		s = at.services[host]
	} else {
		name, rest, far := strings.Cut(host, ".")
		ns, _, _ := strings.Cut(rest, ".")
		if !far && from != nil {
			ns = from.Namespace
		}
		s = resource.Get(w.Read, kinds.Services, ns, name)
	}
	if s == nil || len(s.Spec.Ports) == 0 {
		return v, false
	}
	at := s.Spec.Ports[0]
	for _, p := range s.Spec.Ports {
		if p.Port == port {
			at = p
		}
	}
	for _, p := range general.Selected(w, s) {
		if p.Spec.HostNetwork || core.Terminal(p) {
			continue
		}
		number := at.TargetPort.IntVal
		if name := at.TargetPort.StrVal; name != "" {
			number = portNamed(p, name)
		}
		if number == 0 {
			number = at.Port
		}
		return way{from, p, number}, true
	}
	return v, false
}

// addresses are those of pods and services.
type addresses struct {
	pods     map[string]*corev1.Pod
	services map[string]*corev1.Service
}

// addressesOf gathers them once: as many may ask as there are pods.
func addressesOf(w *converge.World) *addresses {
	known := converge.Kept[addresses](w)
	if known.pods != nil {
		return known
	}
	known.pods, known.services = map[string]*corev1.Pod{}, map[string]*corev1.Service{}
	for obj := range w.Read.Each(kinds.Pods, "") {
		if p := resource.As[*corev1.Pod](obj); p.Status.PodIP != "" && !p.Spec.HostNetwork && !core.Terminal(p) {
			known.pods[p.Status.PodIP] = p
		}
	}
	for _, s := range resource.List(w.Read, kinds.Services, "") {
		known.services[s.Spec.ClusterIP] = s
	}
	return known
}

// portNamed is the number of a pod's port; 0: it has none of the name.
func portNamed(p *corev1.Pod, name string) int32 {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.Name == name {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// A nearMiss is a rule of a policy that would let a way be, but for one thing.
type nearMiss struct {
	rule   int
	labels map[string]string // that the pod which connects lacks
	port   bool              // its ports are others
}

// cutting is a policy that cuts a way in one direction; nil: none does. Of several it is the one that comes nearest to letting it be.
func cutting(w *converge.World, v way, direction networkingv1.PolicyType) (found *networkingv1.NetworkPolicy, near nearMiss) {
	own, other := v.to, v.from
	if direction == networkingv1.PolicyTypeEgress {
		own, other = v.from, v.to
	}
	for _, n := range resource.List(w.Read, kinds.NetworkPolicies, own.Namespace) {
		sel, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
		if err != nil || !sel.Matches(labels.Set(own.Labels)) || !slices.Contains(n.Spec.PolicyTypes, direction) {
			continue
		}
		miss, closest := nearMiss{rule: -1}, false
		for i, r := range rulesOf(n, direction) {
			ports, lacks, peers := opens(r.ports, v), map[string]string(nil), len(r.peers) == 0
			for j := range r.peers {
				is, lack := meets(w, &r.peers[j], other, own.Namespace)
				if is {
					peers = true
				} else if lack != nil {
					lacks = lack
				}
			}
			switch {
			case ports && peers:
				return nil, near
			case peers && len(r.peers) > 0:
				miss, closest = nearMiss{i, nil, true}, true
			case ports && lacks != nil && direction == networkingv1.PolicyTypeIngress:
				miss, closest = nearMiss{i, lacks, false}, true
			}
		}
		if found == nil || closest && near.rule < 0 {
			found, near = n, miss
		}
	}
	return found, near
}

// A flow is one rule of a policy, in either direction.
type flow struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rulesOf(n *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) (list []flow) {
	if direction == networkingv1.PolicyTypeEgress {
		for _, r := range n.Spec.Egress {
			list = append(list, flow{r.To, r.Ports})
		}
		return list
	}
	for _, r := range n.Spec.Ingress {
		list = append(list, flow{r.From, r.Ports})
	}
	return list
}

// opens says that ports of a rule have that of a way; a protocol other than TCP is taken for what is meant, as nobody here knows.
func opens(ports []networkingv1.NetworkPolicyPort, v way) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Port == nil || p.Port.IntVal == v.port {
			return true
		}
		return p.Port.StrVal != "" && portNamed(v.to, p.Port.StrVal) == v.port || p.EndPort != nil && p.Port.IntVal <= v.port &&
			v.port <= *p.EndPort
	})
}

// meets says that a pod, or the API server, is one of those of a peer; else which labels it lacks for that, if nothing else is amiss.
// An address may be anybody's. own is the policy's namespace.
func meets(w *converge.World, peer *networkingv1.NetworkPolicyPeer, p *corev1.Pod, own string) (is bool, lacks map[string]string) {
	if peer.IPBlock != nil || p == nil {
		return peer.IPBlock != nil, nil
	}
	space := resource.Get(w.Read, kinds.Namespaces, "", p.Namespace)
	if peer.NamespaceSelector != nil {
		sel, err := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
		if err != nil || space == nil || sel.Matches(labels.Set(space.Labels)) {
			is = true
		}
	} else {
		is = p.Namespace == own
	}
	sel, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
	if !is || peer.PodSelector == nil || err != nil || sel.Matches(labels.Set(p.Labels)) {
		return is, nil
	}
	if len(peer.PodSelector.MatchExpressions) > 0 {
		return false, nil
	}
	lacks = map[string]string{}
	for key, value := range peer.PodSelector.MatchLabels {
		if p.Labels[key] != value {
			lacks[key] = value
		}
	}
	return false, lacks
}

// opened advises how to open a way that a policy cuts.
func opened(l *converge.Look, v way, n *networkingv1.NetworkPolicy, near nearMiss, field string) (advice []string) {
	for _, key := range slices.Sorted(maps.Keys(near.labels)) {
		if a := relabelled(l, "give its pods the label that the policy lets in", key, near.labels[key]); a != "" && len(near.labels) == 1 {
			advice = append(advice, a)
		}
	}
	port := fmt.Sprintf(`{"port":%d}`, v.port)
	if near.port {
		return append(advice, "let it: "+converge.Patched(converge.RefTo(kinds.NetworkPolicies, n),
			converge.Add(fmt.Sprintf("/spec/%s/%d/ports/-", field, near.rule), json.RawMessage(port))))
	}
	other, peers := v.from, "from"
	if field == "egress" {
		other, peers = v.to, "to"
	}
	rule := `"ports":[` + port + "]"
	if other != nil {
		rule = `"` + peers + `":[{"namespaceSelector":{"matchLabels":{"` + corev1.LabelMetadataName + `":"` + other.Namespace +
			`"}},"podSelector":{"matchLabels":` + kept(other) + `}}],` + rule
	}
	begin := "let it: "
	if len(advice) > 0 {
		begin = "or let it: "
	}
	return append(advice, begin+ruled(n, field, "{"+rule+"}"))
}

// ruled is the command that gives a policy one rule more, which is JSON, for a direction.
func ruled(n *networkingv1.NetworkPolicy, field, rule string) string {
	path := "/spec/" + field + "/-"
	if field == "ingress" && len(n.Spec.Ingress) == 0 || field == "egress" && len(n.Spec.Egress) == 0 {
		path, rule = "/spec/"+field, "["+rule+"]"
	}
	return converge.Patched(converge.RefTo(kinds.NetworkPolicies, n), converge.Add(path, json.RawMessage(rule)))
}

// kept are the labels of a pod that the next one in its place has, too, as JSON.
func kept(p *corev1.Pod) string {
	own := maps.Clone(p.Labels)
	maps.DeleteFunc(own, func(key, _ string) bool {
		return strings.HasSuffix(key, "-hash") || strings.HasPrefix(key, "statefulset.kubernetes.io/") ||
			strings.HasPrefix(key, "apps.kubernetes.io/") || strings.HasPrefix(key, "batch.kubernetes.io/") || strings.HasSuffix(key, "-uid")
	})
	for _, key := range []string{"app.kubernetes.io/name", "app"} {
		if value, is := own[key]; is {
			own = map[string]string{key: value}
			break
		}
	}
	text, err := json.Marshal(own)
	if err != nil || own == nil {
		return "{}"
	}
	return string(text)
}

// Severed tells why the API server does not reach what a text says that it asks; "": no network policy is in its way.
func (workloads) Severed(l *converge.Look, text string) (says string, advice []string) {
	return severed(l, nil, words.OneLine(text))
}

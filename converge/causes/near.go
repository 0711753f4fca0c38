package causes

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

const softer = "add a node, or prefer in place of require: preferredDuringSchedulingIgnoredDuringExecution"

// meant are pods, with their nodes, that the first term of a pod's affinity is about, three at most: as many pods may wait as there are.
// Its selector comes with them; "": it is about other namespaces.
func meant(w *converge.World, p *corev1.Pod, terms []corev1.PodAffinityTerm) (want string, pods []string) {
	if len(terms) == 0 || len(terms[0].Namespaces) > 0 || terms[0].NamespaceSelector != nil {
		return "", nil
	}
	sel, err := metav1.LabelSelectorAsSelector(terms[0].LabelSelector)
	if err != nil {
		return "", nil
	}
	those := w.Read.Each(kinds.Pods, p.Namespace)
	if terms[0].LabelSelector != nil {
		for key, value := range terms[0].LabelSelector.MatchLabels {
			those = w.Read.ByLabel(kinds.Pods, p.Namespace, key, value)
		}
	}
	pods = make([]string, 0, 3)
	for obj := range those {
		o := resource.As[*corev1.Pod](obj)
		if o.Spec.NodeName != "" && !core.Terminal(o) &&
			sel.Matches(labels.Set(o.Labels)) {
			if pods = append(pods, "pod/"+o.Name+" on "+o.Spec.NodeName); len(pods) == cap(pods) {
				break
			}
		}
	}
	slices.Sort(pods)
	return sel.String(), pods
}

// keptApart: pods that this one must not be beside are on the nodes that it could have. A rollout that may have no pod less waits for ever.
func keptApart(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.Contains(text, "anti-affinity rules") {
		return nil
	}
	f := unsuitable("pod anti-affinity", softened(l, p), "anti-affinity rules")(l, p, text)
	if f == nil || p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return f
	}
	if _, pods := meant(l.World, p, p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution); len(pods) > 0 {
		f.Says += "; it must not be beside " + words.List(pods, 3)
	}
	tied(l, p, f, text)
	makesWay(l.World, p, f)
	return f
}

// softened advises to prefer what the affinity of a pod to others, or from them, requires, as far as there are nodes for it.
func softened(l *converge.Look, p *corev1.Pod) string {
	a := p.Spec.Affinity
	if a == nil {
		return edited(l, softer)
	}
	to := map[string]any{}
	wish := func(field string, soft []corev1.WeightedPodAffinityTerm, hard []corev1.PodAffinityTerm) {
		soft = slices.Clone(soft)
		for _, term := range hard {
			soft = append(soft, corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: term})
		}
		to[field] = map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": nil, "preferredDuringSchedulingIgnoredDuringExecution": soft}
	}
	switch text, _, _ := strings.Cut(verdictOn(l, p), ". "); {
	case a.PodAntiAffinity != nil && (a.PodAffinity == nil || !strings.Contains(text, "pod affinity rules")):
		wish("podAntiAffinity", a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	case a.PodAffinity != nil:
		wish("podAffinity", a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	body := converge.JSON(map[string]any{"affinity": to})
	if body == "" || len(to) == 0 {
		return edited(l, softer)
	}
	return retemplate(l, softer, body)
}

// makesWay advises, while newer pods wait for room beside those that they replace, to let one of those go first.
func makesWay(w *converge.World, p *corev1.Pod, f *converge.Finding) {
	d := deploymentOf(w, p)
	if d == nil || d.Spec.Strategy.RollingUpdate == nil || d.Status.UpdatedReplicas >= d.Status.Replicas {
		return
	}
	f.Advice = append(f.Advice, "or let an older pod go before a newer one starts: kubectl patch deployment "+d.Name+" -n "+d.Namespace+
		` -p '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}'`)
}

// tied adds what else keeps a pod to few nodes: where its volumes lie, and what it asks of nodes.
func tied(l *converge.Look, p *corev1.Pod, f *converge.Finding, text string) {
	for _, name := range core.ClaimNames(p) {
		v := volumeOfClaim(l, p.Namespace, name)
		if v == nil || !strings.Contains(text, "volume node affinity") || v.Spec.NodeAffinity == nil ||
			v.Spec.NodeAffinity.Required == nil {
			continue
		}
		if fits := nodesFor(l, v.Spec.NodeAffinity.Required); len(fits) > 0 {
			f.Says += "; the volume of claim " + name + " is to be had on " + words.List(fits, 3) + " alone"
			f.Advice = []string{"if what is on it may go, have a volume made elsewhere: kubectl delete pvc " + name + " -n " + p.Namespace +
				" --wait=false && kubectl delete pod " + p.Name + " -n " + p.Namespace}
		}
		return
	}
	if strings.Contains(text, "affinity/selector") && asksForNodes(p) {
		want, fits := nodeaffinity.GetRequiredNodeAffinity(p), []string(nil)
		for _, n := range resource.List(l.Read, kinds.Nodes, "") {
			if ok, err := want.Match(n); err == nil && ok {
				fits = append(fits, n.Name)
			}
		}
		if len(fits) > 0 {
			f.Says += "; of all nodes it asks for " + words.List(fits, 3) + " alone"
			f.Advice = []string{"let more nodes be such as it asks for, by their labels: kubectl get nodes --show-labels", softer}
		}
	}
}

// nodesFor are the nodes that a selector fits.
func nodesFor(l *converge.Look, sel *corev1.NodeSelector) (names []string) {
	ns, err := nodeaffinity.NewNodeSelector(sel)
	for _, n := range resource.List(l.Read, kinds.Nodes, "") {
		if err == nil && ns.Match(n) {
			names = append(names, n.Name)
		}
	}
	return names
}

// atVolume tells why none of the nodes that can use a volume of a pod takes it; false: there is none, or one does.
func atVolume(l *converge.Look, f *converge.Finding, p *corev1.Pod) bool {
	for _, name := range core.ClaimNames(p) {
		v := volumeOfClaim(l, p.Namespace, name)
		if v == nil || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
			continue
		}
		fits := nodesFor(l, v.Spec.NodeAffinity.Required)
		off, why := "", ""
		for _, at := range fits {
			if why = away(resource.Get(l.Read, kinds.Nodes, "", at)); why == "" {
				return false
			}
			off = at
		}
		if off == "" {
			continue
		}
		f.Says += "; the volume of claim " + name + " is to be had on " + words.List(fits, 3) + " alone, which " + why
		f.Waits = converge.On("Object", converge.Ref{Kind: kinds.Nodes, Name: off}, "")
		if why == "is cordoned" {
			f.Advice = []string{"kubectl uncordon " + off}
			return true
		}
		f.Below = []converge.Ref{{Kind: kinds.Nodes, Name: off}}
		return true
	}
	return false
}

// together: the pod must be beside others, and there are none, or no node beside them has room.
func together(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.Contains(text, "pod affinity rules") {
		return nil
	}
	f := unsuitable("pod affinity", softened(l, p), "pod affinity rules")(l, p, text)
	if f == nil || p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
		return f
	}
	want, pods := meant(l.World, p, p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	switch {
	case len(pods) > 0:
		f.Says += "; it must be beside " + words.List(pods, 3)
		key := p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey
		if l.Sees(kinds.Nodes) && len(nodeLabels(l.World, key)) == 0 {
			f.Says += ", by the label " + key + ", which no node has"
		}
	case want != "":
		f.Says += "; it must be beside a pod with " + want + ", and none runs in namespace " + p.Namespace
		f.Advice = append(append([]string{"have such a pod run, or correct the labels: kubectl get pods --show-labels -n " + p.Namespace},
			f.Advice...), companions(l, p)...)
	}
	return f
}

// deploymentOf is the deployment whose rollout a pod belongs to.
func deploymentOf(w *converge.World, p *corev1.Pod) *appsv1.Deployment {
	if o := metav1.GetControllerOfNoCopy(p); o != nil && o.Kind == "ReplicaSet" {
		if r := resource.Get(w.Read, kinds.ReplicaSets, p.Namespace, o.Name); r != nil {
			if o = metav1.GetControllerOfNoCopy(r); o != nil && o.Kind == "Deployment" {
				return resource.Get(w.Read, kinds.Deployments, p.Namespace, o.Name)
			}
		}
	}
	return nil
}

// reach says from where the volume of a claim of a pod can be used, where no node is there.
func reach(l *converge.Look, p *corev1.Pod) (says, claim string) {
	for _, name := range core.ClaimNames(p) {
		if v := volumeOfClaim(l, p.Namespace, name); v != nil && v.Spec.NodeAffinity != nil && v.Spec.NodeAffinity.Required != nil {
			if off := unmet(l.World, v.Spec.NodeAffinity.Required.NodeSelectorTerms); off != "" {
				return "; persistentvolume/" + v.Name + " of claim " + name + " lies elsewhere" + off, name
			}
		}
	}
	return "", ""
}

// noStorage ends the scheduler's sentence on nodes whose drivers tell of too little room.
const noStorage = "enough free storage"

// devicesShort tells of devices that are there and that their driver, or a rule, keeps pods off.
func devicesShort(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	f := unsuitable("resource claim", "look which devices there are: kubectl get resourceslices", "ResourceClaim", "resourceclaim",
		"resource claim", "cannot allocate all claims")(l, p, text)
	if f == nil {
		return nil
	}
	unfitDevices(l, f, p)
	for _, s := range resource.List(l.Read, kinds.ResourceSlices, "") {
		for i := range s.Spec.Devices {
			if d := &s.Spec.Devices[i]; len(d.Taints) > 0 {
				f.Says += "; the device " + d.Name + " of pool " + s.Spec.Pool.Name + " has the taint " + d.Taints[0].Key
				return f
			}
		}
	}
	return f
}

package converge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// scheduling are the ways in which a pod gets no node. What the scheduler found is its sentence on the pod.
func scheduling() []Situation {
	pod := func(see func(l *look, p *corev1.Pod, text string) *Finding) func(l *look) *Finding {
		return func(l *look) *Finding {
			p := l.obj.(*corev1.Pod)
			if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
				return nil
			}
			said := l.verdictOn(p)
			counts, _, _ := strings.Cut(said, ". ") // what preemption came to stands in the error
			f := see(l, p, strings.TrimSuffix(counts, "."))
			if f == nil {
				return nil
			}
			f.byScheduler(l.World, p)
			if f.Error == nil && said != "" {
				f.Error = textOnly(said)
			}
			return f
		}
	}
	of := []resource.Kind{kinds.Pods}
	return []Situation{
		{"Gated", of, pod(gated)},
		{"SchedulerMissing", of, pod(schedulerMissing)},
		{"NoNodes", of, pod(noNodes)},
		{"ClaimMissing", of, pod(claimMissing)},
		{"ClaimTaken", of, pod(claimTaken)},
		{"ClaimPending", of, pod(claimPending)},
		{"VolumeAway", of, pod(volumeAway)},
		{"VolumesApart", of, pod(volumesApart)},
		{"VolumeLimit", of, pod(unsuitable("volumes, of which a node takes only so many",
			"remove pods with such volumes from the node, or add a node; see how many one takes: kubectl describe csinode",
			"exceed max volume count"))},
		{"VolumeElsewhere", of, pod(unsuitable("persistent volume", "look which nodes can use its volume: kubectl describe pv",
			"PersistentVolume's node affinity", "volume node affinity conflict", "available volume zone", "non-existent pv",
			"ReadWriteOncePod"))},
		{"StorageShort", of, pod(unsuitable("claim: by what their drivers tell, none has room for so large a volume",
			"ask for less, or give the storage more room: kubectl get csistoragecapacities -A", noStorage))},
		{"DevicesMissing", of, pod(deviceClaimMissing)},
		{"DeviceTemplateMissing", of, pod(deviceTemplateMissing)},
		{"DeviceClassMissing", of, pod(deviceClassMissing)},
		{"DevicesMissing", of, pod(devicesShort)},
		{"DeviceNowhere", of, pod(deviceNowhere)},
		{"InsufficientResources", of, pod(insufficient)},
		{"Tainted", of, pod(tainted)},
		{"AffinityMismatch", of, pod(unsuitable("node selector or affinity", "correct it, or label nodes: kubectl get nodes --show-labels",
			"node affinity/selector", "[NodeAffinity]"))},
		{"PodAffinityMismatch", of, pod(keptApart)},
		{"PodAffinityMismatch", of, pod(together)},
		{"SpreadMismatch", of, pod(spreadMismatch)},
		{"PortTaken", of, pod(portTaken)},
		{"Unschedulable", of, pod(unschedulable)},
		{"NotScheduled", of, pod(notScheduled)},
	}
}

// byScheduler has the pod's own scheduler make the next move, and tells what an autoscaler of nodes says.
func (f *Finding) byScheduler(w *World, p *corev1.Pod) {
	who := "scheduler"
	if name := p.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName {
		who += " " + name
	}
	if f.Owner = cmp.Or(f.Owner, who); !strings.Contains(f.Next.Who, who) {
		f.Next.Who = strings.Replace(f.Next.Who, "scheduler", who, 1)
	}
	if e := w.scaled(p.UID); e != nil && f.Aside == "" {
		f.Aside = "the autoscaler of nodes says: " + oneLine(e.Message)
		if s, ok := meaning(overheard, strings.ToLower(f.Aside)); ok {
			f.Also = append(f.Also, s.advice)
		}
	}
	if gang := p.Annotations["scheduling.k8s.io/group-name"]; gang != "" && len(f.Below) == 0 {
		for _, k := range w.Kinds.All() {
			if obj := w.Read.Lookup(k, p.Namespace, gang); k.Info().GVK.Kind == "PodGroup" && obj != nil && !w.Health(k, obj).Converged() {
				f.Below = []Ref{refTo(k, obj)}
			}
		}
	}
}

// nothingFound ends messages of schedulers, upstream's too: what they say when preemption was not even tried. It is of no pod or claim.
const nothingFound = ". not found"

// verdictOn returns the scheduler's last message about a pod; "" when it has said nothing.
func (l *look) verdictOn(p *corev1.Pod) string {
	if r, ok := l.record("scheduler", l.kind, p); ok && (r.Note != "" || r.LastErr != "") {
		return strings.TrimSuffix(cmp.Or(r.LastErr, r.Note), nothingFound)
	}
	if c := podCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return strings.TrimSuffix(c.Message, nothingFound)
	}
	return ""
}

func gated(l *look, p *corev1.Pod, _ string) *Finding {
	if len(p.Spec.SchedulingGates) == 0 {
		return nil
	}
	var names []string
	for _, g := range p.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	f := &Finding{Says: "is held back by the scheduling gate " + list(names, 3), Owner: "who set the gate " + names[0], State: Blocked,
		Waits: &convergence.Wait{Type: "Field", Name: names[0], On: new(l.object()), Field: "spec.schedulingGates"}}
	f.Next = does(f.Owner, "removes the gate when the pod may be scheduled")
	if told := queued(l.World, p); told != "" {
		f.Says += "; its Workload says: " + told
	}
	f.Advice = []string{"look whether the controller that sets " + names[0] + " runs",
		"or take the gate away: kubectl edit pod " + p.Name + " -n " + p.Namespace}
	return f
}

func schedulerMissing(l *look, p *corev1.Pod, text string) *Finding {
	name := cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName)
	runs, sure := l.runs("scheduler")
	if text != "" || name == corev1.DefaultSchedulerName && (runs || !sure) {
		return nil
	}
	who := "the scheduler " + name
	f := &Finding{Says: "wants to be scheduled by " + name + ", and no such scheduler has looked at it", Owner: who, State: Missing,
		Waits: forName("Controller", name),
		Next:  does(who, "takes the pod when it runs"), Advice: []string{"start the scheduler " + name + ", or correct spec.schedulerName"}}
	return f
}

func noNodes(l *look, p *corev1.Pod, text string) *Finding {
	if !strings.HasPrefix(text, "no nodes available") {
		return nil
	}
	return &Finding{Says: "can't be scheduled: the cluster has no node", State: Blocked, Waits: forName("Node", "any"),
		Next:   does("scheduler", "tries again when a node joins"),
		Advice: []string{"add a node: kloop node", "or make one of this machine: kloop up --node=real"}}
}

func claimMissing(l *look, p *corev1.Pod, text string) *Finding {
	for _, name := range core.ClaimNames(p) {
		if resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name) == nil && l.Sees(kinds.PersistentVolumeClaims, p.Namespace) {
			r := l.namespaced(kinds.PersistentVolumeClaims, name)
			return &Finding{Says: "uses the claim " + name + ", which does not exist", State: Blocked, Waits: on("Object", r, ""),
				Next:   does("scheduler", "tries again when the claim exists"),
				Advice: []string{"create persistentvolumeclaim/" + name + ", or correct the volume's claimName"}}
		}
	}
	return nil
}

// claimTaken: one pod at a time may use the claim, and another one does.
func claimTaken(l *look, p *corev1.Pod, text string) *Finding {
	if !strings.Contains(text, "ReadWriteOncePod") {
		return nil
	}
	for _, name := range core.ClaimNames(p) {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
		if c == nil || !slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		for _, other := range users(l.World, c) {
			if other.Name != p.Name && other.Spec.NodeName != "" {
				return &Finding{Says: "waits for the claim " + name + ", which only one pod at a time may use, and pod/" + other.Name + " does",
					State: Blocked, Waits: on("Object", refTo(kinds.Pods, other), ""),
					Next:   does("scheduler", "tries again when that pod is gone"),
					Advice: []string{"delete pod/" + other.Name + ", or make the claim anew with ReadWriteOnce: then pods of one node may share it"}}
			}
		}
	}
	return nil
}

func claimPending(l *look, p *corev1.Pod, text string) *Finding {
	var open []Ref
	for _, name := range core.ClaimNames(p) {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
		if c != nil && (c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil) {
			open = append(open, refTo(kinds.PersistentVolumeClaims, c))
		}
	}
	full := strings.Contains(text, "max volume count") && l.allWait(p, open)
	if len(open) == 0 || full || strings.HasPrefix(l.mainReason(p, text), "Insufficient ") || strings.Contains(text, noStorage) ||
		text != "" && !aboutVolumes(text) && l.allWait(p, open) {
		return nil
	}
	return &Finding{Says: "waits for the volume of claim " + open[0].Name + andMore(len(open)-1), State: Waiting,
		Waits: on("Object", open[0], "status.phase"),
		Next:  does("scheduler", "tries again when the claim has a volume"), Below: open}
}

// allWait says that claims wait for nothing but the pod that uses them: they bind when it is scheduled.
func (l *look) allWait(p *corev1.Pod, open []Ref) bool {
	return !slices.ContainsFunc(open, func(r Ref) bool {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, r.NS, r.Name)
		class := classOf(l.World, c)
		return class == nil || ptr.Deref(class.VolumeBindingMode, "") != storagev1.VolumeBindingWaitForFirstConsumer || c.DeletionTimestamp != nil
	})
}

// aboutVolumes says that the scheduler's sentence counts nodes for the sake of volumes.
func aboutVolumes(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "volume") || strings.Contains(text, "storage")
}

// mainReason is why most of the nodes that the pod asks for will not do. Where it asks for certain nodes, and there are
// some, it tells nothing that others are not they.
func (l *look) mainReason(p *corev1.Pod, text string) string {
	head, reasons, ok := strings.Cut(text, " nodes are available: ")
	if want := nodeaffinity.GetRequiredNodeAffinity(p); ok && asksForNodes(p) && slices.ContainsFunc(resource.List(l.Read, kinds.Nodes, ""),
		func(n *corev1.Node) bool {
			fits, err := want.Match(n)
			return err == nil && fits
		}) {
		rest := slices.DeleteFunc(strings.Split(reasons, ", "), func(r string) bool {
			return strings.Contains(r, "affinity/selector") || strings.Contains(r, "[NodeAffinity]") || strings.Contains(r,
				"untolerated taint") || strings.Contains(r, "were unschedulable")
		})
		if len(rest) > 0 {
			text = head + " nodes are available: " + strings.Join(rest, ", ")
		}
	}
	return mainReason(text)
}

func asksForNodes(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	return len(p.Spec.NodeSelector) > 0 || a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

// mainReason is why most of the nodes will not do: the reason with the greatest count in the scheduler's sentence; the
// whole sentence when it counts no nodes.
func mainReason(text string) string {
	_, reasons, ok := strings.Cut(text, " nodes are available: ")
	if !ok {
		return text
	}
	best, most := text, 0
	for _, r := range strings.Split(reasons, ", ") {
		n, why, ok := strings.Cut(r, " ")
		if k, err := strconv.Atoi(n); ok && err == nil && k > most {
			best, most = why, k
		}
	}
	return best
}

// morePods is the shortage of a node that has as many pods as it takes.
const morePods = "room for more pods"

func insufficient(l *look, p *corev1.Pod, text string) *Finding {
	what, ok := strings.CutPrefix(l.mainReason(p, text), "Insufficient ")
	if !ok {
		if !strings.HasPrefix(l.mainReason(p, text), "Too many pods") {
			return nil
		}
		what = morePods
	}
	says := "fits on no node for want of " + what
	if what == morePods {
		says = "fits on no node because those that it may run on have as many pods as they take"
	}
	f := &Finding{Says: says + ": " + text, State: Blocked, Waits: forName("Node", "with enough "+what),
		Next:   does("scheduler", "tries again when a pod ends or a node joins"),
		Advice: []string{"lower the pod's requests, remove other pods, or add a node"}}
	if what != morePods {
		l.size(f, p, corev1.ResourceName(what))
	}
	if n := p.Status.NominatedNodeName; n != "" {
		says, until := victims(l.World, p, n)
		f.Next = at(until, "scheduler", "puts the pod on %s when the pods that it preempted there are gone", n)
		if f.State, f.Says = Waiting, f.Says+says; says != "" {
			f.Advice = nil
		}
	}
	if ptr.Deref(p.Spec.PreemptionPolicy, "") == corev1.PreemptNever {
		f.Advice = append(f.Advice,
			"or give it a priority class whose preemptionPolicy is not Never: its own keeps it from making room for itself")
	}
	return f
}

// victims names the pods of less priority that are stopping on the node that a pod is to get: it waits for them, until the last one's
// time is over.
func victims(w *World, p *corev1.Pod, node string) (says string, until time.Time) {
	var names []string
	for obj := range w.Read.ByField(kinds.Pods, "spec.nodeName", node) {
		if v := resource.As[*corev1.Pod](obj); v.DeletionTimestamp != nil && ptr.Deref(v.Spec.Priority, 0) < ptr.Deref(p.Spec.Priority, 0) {
			name := "pod/" + v.Name
			if v.Namespace != p.Namespace {
				name = "a pod of another namespace"
			}
			if names = append(names, name); v.DeletionTimestamp.After(until) {
				until = v.DeletionTimestamp.Time
			}
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "", until
	}
	return "; stopping on " + node + ", with less priority: " + list(names, 3), until
}

// tainted: the nodes that the pod asks for keep it away. Whatever the scheduler's sentence counts, nodes that the pod
// does not ask for do not matter; and a node that joined since and does not fit has not changed the sentence.
func tainted(l *look, p *corev1.Pod, text string) *Finding {
	if text == "" {
		return nil
	}
	want := nodeaffinity.GetRequiredNodeAffinity(p)
	var names []string
	var ill []Ref
	taint := ""
	for _, n := range resource.List(l.Read, kinds.Nodes, "") {
		if ok, err := want.Match(n); err != nil || !ok {
			continue
		}
		i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations,
				func(o corev1.Toleration) bool { return tolerates(&o, &t) })
		})
		switch {
		case i >= 0:
			taint = n.Spec.Taints[i].ToString()
			if n.Spec.Taints[i].Key == corev1.TaintNodeUnschedulable {
				taint = "cordoned"
			}
		case n.Spec.Unschedulable:
			taint = "cordoned"
		default:
			return nil // another reason keeps it from this one
		}
		names = append(names, n.Name)
		if (strings.HasPrefix(taint, "node.kubernetes.io/") || startupTaint(n) != nil) && !l.Health(kinds.Nodes, n).Converged() {
			ill = append(ill, refTo(kinds.Nodes, n))
		}
	}
	if len(names) == 0 {
		return nil
	}
	if taint == "cordoned" {
		return &Finding{Says: "fits on no node because those that it asks for (" + list(names, 3) + ") are cordoned: " + text, State: Blocked,
			Waits:  on("Node", Ref{kinds.Nodes, "", names[0]}, "spec.unschedulable"),
			Next:   does("scheduler", "tries again when a node is uncordoned or another one joins"),
			Advice: []string{"kubectl uncordon " + names[0]}}
	}
	f := &Finding{Says: "fits on no node because those that it asks for (" + list(names,
		3) + ") have taints that it does not tolerate, such as " + taint + ": " + text, State: Blocked,
		Waits: forName("Node", "without the taint "+taint),
		Next:  does("scheduler", "tries again when a node loses its taint or another one joins"), Below: ill,
		Advice: []string{"give the pod a toleration, or take the taint away: kubectl taint nodes " + names[0] + " " + taint + "-"}}
	if s, ok := meaning(taints, taint); ok {
		f.Advice = strings.Split(s.advice, "\n")
	}
	return f
}

// taints are those that programs give and take: taking one away by hand is of no use.
var taints = []saying{
	{"node.cloudprovider.kubernetes.io/uninitialized", "",
		"look whether the cloud's controller manager runs: it takes the taint away when it has looked at the node\n" +
			"without one, do not start node agents with --cloud-provider=external"},
	{"ToBeDeletedByClusterAutoscaler", "", leavingNode}, {"karpenter.sh/disrupted", "", leavingNode}, {"karpenter.sh/unregistered", "",
		"it is a new node, which Karpenter has not registered yet: kubectl get nodeclaims"},
	{"node.kubernetes.io/*pressure", "", illNode}, {"node.kubernetes.io/not-ready", "", illNode},
	{"node.kubernetes.io/unreachable", "", illNode}, {"node.kubernetes.io/network-unavailable", "", illNode},
}

const (
	leavingNode = "the node is about to be removed: another one has to take its place"
	illNode     = "see what the node lacks; the taint goes when it has it: kubectl describe nodes"
)

func tolerates(o *corev1.Toleration, t *corev1.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	return o.Operator == corev1.TolerationOpExists || (o.Operator == "" || o.Operator == corev1.TolerationOpEqual) && o.Value == t.Value
}

// unsuitable is the rule for what the scheduler names in its sentence.
func unsuitable(what, advice string, marks ...string) func(l *look, p *corev1.Pod, text string) *Finding {
	return func(l *look, p *corev1.Pod, text string) *Finding {
		for _, m := range marks {
			if strings.Contains(l.mainReason(p, text), m) {
				f := &Finding{Says: "fits on no node because of its " + what + ": " + text, State: Blocked,
					Waits: forName("Node", "that suits its "+what),
					Next:  does("scheduler", "tries again when a node or pod changes so that it could fit"), Advice: []string{advice}}
				if strings.HasPrefix(what, "persistent volume") {
					f.Says += reach(l, p)
				}
				if strings.HasPrefix(what, "node selector") {
					off := unlabelled(l.World, p)
					if f.Says += off; strings.Contains(off, " kubernetes.io/os=") || strings.Contains(off, " kubernetes.io/arch=") {
						f.Advice = []string{"add a node that has it: this label tells what a node is, so giving it to another does not help"}
					}
				}
				return f
			}
		}
		return nil
	}
}

func unschedulable(l *look, p *corev1.Pod, text string) *Finding {
	if text == "" {
		return nil
	}
	return &Finding{Says: "can't be scheduled: " + text, State: Blocked,
		Next: does("scheduler", "tries again when something changes that could help")}
}

func notScheduled(l *look, p *corev1.Pod, _ string) *Finding {
	if name := cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName); name == corev1.DefaultSchedulerName {
		if f := leaderGone(l, "kube-scheduler"); f != nil {
			return f
		}
	}
	return &Finding{Says: "was not scheduled yet", State: Progressing, Next: does("scheduler", "takes it when its turn comes")}
}

package causes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// scheduling are the ways in which a pod gets no node. What the scheduler found is its sentence on the pod.
func scheduling() []converge.Situation {
	pod := func(see func(l *converge.Look, p *corev1.Pod, text string) *converge.Finding) func(l *converge.Look) *converge.Finding {
		return func(l *converge.Look) *converge.Finding {
			p := l.Obj.(*corev1.Pod)
			if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
				return nil
			}
			said := verdictOn(l, p)
			counts, _, _ := strings.Cut(said, ". ") // what preemption came to stands in the error
			f := see(l, p, strings.TrimSuffix(counts, "."))
			if f == nil {
				return nil
			}
			if f.Error == nil && said != "" {
				f.Error = general.TextOnly(said)
			}
			byScheduler(f, l.World, p)
			return f
		}
	}
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "Gated", Of: of, See: pod(gated)},
		{Name: "SchedulerMissing", Of: of, See: pod(schedulerMissing)},
		{Name: "NoNodes", Of: of, See: pod(noNodes)},
		{Name: "ClaimMissing", Of: of, See: pod(claimMissing)},
		{Name: "ClaimTaken", Of: of, See: pod(claimTaken)},
		{Name: "ClaimPending", Of: of, See: pod(claimPending)},
		{Name: "VolumeAway", Of: of, See: pod(volumeAway)},
		{Name: "VolumesApart", Of: of, See: pod(volumesApart)},
		{Name: "VolumeLimit", Of: of, See: pod(unsuitable("volumes, of which a node takes only so many",
			"remove pods with such volumes from the node, or add a node; see how many one takes: kubectl describe csinode",
			"exceed max volume count"))},
		{Name: "VolumeElsewhere", Of: of, See: pod(unsuitable("persistent volume",
			"look which nodes can use its volume: kubectl describe pv",
			"PersistentVolume's node affinity", "volume node affinity conflict", "available volume zone", "non-existent pv",
			"ReadWriteOncePod"))},
		{Name: "StorageShort", Of: of, See: pod(storageShort)},
		{Name: "DevicesMissing", Of: of, See: pod(deviceClaimMissing)},
		{Name: "DeviceTemplateMissing", Of: of, See: pod(deviceTemplateMissing)},
		{Name: "DeviceClassMissing", Of: of, See: pod(deviceClassMissing)},
		{Name: "DevicesMissing", Of: of, See: pod(devicesShort)},
		{Name: "DeviceNowhere", Of: of, See: pod(deviceNowhere)},
		{Name: "InsufficientResources", Of: of, See: pod(insufficient)},
		{Name: "Tainted", Of: of, See: pod(tainted)},
		{Name: "AffinityMismatch", Of: of, See: pod(unsuitable("node selector or affinity",
			"correct it, or label nodes: kubectl get nodes --show-labels",
			"node affinity/selector", "[NodeAffinity]"))},
		{Name: "PodAffinityMismatch", Of: of, See: pod(keptApart)},
		{Name: "PodAffinityMismatch", Of: of, See: pod(together)},
		{Name: "SpreadMismatch", Of: of, See: pod(spreadMismatch)},
		{Name: "PortTaken", Of: of, See: pod(portTaken)},
		{Name: "Unschedulable", Of: of, See: pod(unschedulable)},
		{Name: "NotScheduled", Of: of, See: pod(notScheduled)},
	}
}

// byScheduler has the pod's own scheduler make the next move, and tells what an autoscaler of nodes says.
func byScheduler(f *converge.Finding, w *converge.World, p *corev1.Pod) {
	who := "scheduler"
	if name := p.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName {
		who += " " + name
	}
	if f.Owner = cmp.Or(f.Owner, who); !strings.Contains(f.Next.Who, who) {
		f.Next.Who = strings.Replace(f.Next.Who, "scheduler", who, 1)
	}
	if e := w.Scaled(p.UID); e != nil && f.Aside == "" {
		f.Aside = "the autoscaler of nodes says: " + words.OneLine(e.Message)
		if s, ok := words.Meaning(words.Overheard, strings.ToLower(f.Aside)); ok {
			f.Advice = append([]string{s.Advice()}, f.Advice...)
		}
	}
	unpooled(w, f, p)
	coming(f, w, p)
	if len(f.Advice) > 0 && f.State == converge.Blocked && !strings.Contains(f.Advice[0], "kubectl uncordon ") && f.Error != nil &&
		strings.Contains(f.Error.Message, "were unschedulable") && !aboutVolumes(f.Error.Message) {
		if n := spare(w, p, false); n != nil {
			f.Says += "; node " + n.Name + " would take it, and is cordoned"
			f.Advice = append([]string{"kubectl uncordon " + n.Name}, f.Advice...)
		}
	}
	if len(f.Advice) > 0 && f.State == converge.Blocked && f.Error != nil && strings.Contains(f.Error.Message, "taint {node.kubernetes.io/") {
		if n := spare(w, p, true); n != nil {
			f.Says += "; node " + n.Name + " would take it, and " + w.Health(kinds.Nodes, n).Says
			f.Advice = append([]string{"see to that node: kubectl describe node " + n.Name}, f.Advice...)
		}
	}
	if gang := p.Annotations["scheduling.k8s.io/group-name"]; gang != "" && len(f.Below) == 0 {
		for _, k := range w.Kinds.All() {
			if obj := w.Read.Lookup(k, p.Namespace, gang); k.Info().GVK.Kind == "PodGroup" && obj != nil && !w.Health(k, obj).Converged() {
				f.Below = []converge.Ref{converge.RefTo(k, obj)}
			}
		}
	}
}

// nothingFound ends messages of schedulers, upstream's too: what they say when preemption was not even tried. It is of no pod or claim.
const nothingFound = ". not found"

// verdictOn returns the scheduler's last message about a pod; "" when it has said nothing.
func verdictOn(l *converge.Look, p *corev1.Pod) string {
	if r, ok := l.Record("scheduler", l.Kind, p); ok && (r.Note != "" || r.LastErr != "") {
		return strings.TrimSuffix(cmp.Or(r.LastErr, r.Note), nothingFound)
	}
	if c := general.PodCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return strings.TrimSuffix(c.Message, nothingFound)
	}
	return ""
}

func gated(l *converge.Look, p *corev1.Pod, _ string) *converge.Finding {
	if len(p.Spec.SchedulingGates) == 0 {
		return nil
	}
	var names []string
	for _, g := range p.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	f := &converge.Finding{Says: "is held back by the scheduling gate " + words.List(names, 3), Owner: "who set the gate " + names[0],
		State: converge.Blocked,
		Waits: &convergence.Wait{Type: "Field", Name: names[0], On: new(l.Object()), Field: "spec.schedulingGates"}}
	f.Next = converge.Does(f.Owner, "removes the gate when the pod may be scheduled")
	if told, _ := Queued(l.World, p); told != "" {
		f.Says += "; its Workload says: " + told
	}
	f.Advice = []string{"look whether the controller that sets " + names[0] + " runs",
		"or take the gate away: kubectl edit pod " + p.Name + " -n " + p.Namespace}
	return f
}

func schedulerMissing(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	name := cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName)
	runs, sure := l.Runs("scheduler")
	if text != "" || name == corev1.DefaultSchedulerName && (runs || !sure) {
		return nil
	}
	who := "the scheduler " + name
	f := &converge.Finding{Says: "wants to be scheduled by " + name + ", and no such scheduler has looked at it", Owner: who,
		State:  converge.Missing,
		Waits:  converge.ForName("Controller", name),
		Next:   converge.Does(who, "takes the pod when it runs"),
		Advice: []string{"start the scheduler " + name + ", or correct spec.schedulerName"}}
	return f
}

func noNodes(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.HasPrefix(text, "no nodes available") {
		return nil
	}
	return &converge.Finding{Says: "can't be scheduled: the cluster has no node", State: converge.Blocked, Waits: converge.ForName("Node",
		"any"),
		Next:   converge.Does("scheduler", "tries again when a node joins"),
		Advice: []string{"add a node: kloop node", "or make one of this machine: kloop up --node=real"}}
}

func claimMissing(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	for _, name := range core.ClaimNames(p) {
		if resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name) == nil && l.Sees(kinds.PersistentVolumeClaims,
			p.Namespace) {
			r := general.Namespaced(l, kinds.PersistentVolumeClaims, name)
			return &converge.Finding{Says: "uses the claim " + name + ", which does not exist", State: converge.Blocked,
				Waits:  converge.On("Object", r, ""),
				Next:   converge.Does("scheduler", "tries again when the claim exists"),
				Advice: []string{"create persistentvolumeclaim/" + name + ", or correct the volume's claimName"}}
		}
	}
	return nil
}

// claimTaken: one pod at a time may use the claim, and another one does.
func claimTaken(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.Contains(text, "ReadWriteOncePod") {
		return nil
	}
	for _, name := range core.ClaimNames(p) {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
		if c == nil || !slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		for _, other := range health.Users(l.World, c) {
			if other.Name != p.Name && other.Spec.NodeName != "" {
				return &converge.Finding{Says: "waits for the claim " + name + ", which only one pod at a time may use, and pod/" +
					other.Name + " does",
					State: converge.Blocked, Waits: converge.On("Object", converge.RefTo(kinds.Pods, other), ""),
					Next: converge.Does("scheduler", "tries again when that pod is gone"),
					Advice: []string{"delete pod/" + other.Name +
						", or make the claim anew with ReadWriteOnce: then pods of one node may share it"}}
			}
		}
	}
	return nil
}

func claimPending(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	var open []converge.Ref
	for _, name := range core.ClaimNames(p) {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
		if c != nil && (c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil) {
			open = append(open, converge.RefTo(kinds.PersistentVolumeClaims, c))
		}
	}
	full := strings.Contains(text, "max volume count") && allWait(l, p, open)
	if len(open) == 0 || full || strings.HasPrefix(reasonOf(l, p, text), "Insufficient ") || strings.Contains(text, noStorage) ||
		text != "" && !aboutVolumes(text) && allWait(l, p, open) {
		return nil
	}
	return &converge.Finding{Says: "waits for the volume of claim " + open[0].Name + general.AndMore(len(open)-1), State: converge.Waiting,
		Waits: converge.On("Object", open[0], "status.phase"),
		Next:  converge.Does("scheduler", "tries again when the claim has a volume"), Below: open}
}

// allWait says that claims wait for nothing but the pod that uses them: they bind when it is scheduled.
func allWait(l *converge.Look, p *corev1.Pod, open []converge.Ref) bool {
	return !slices.ContainsFunc(open, func(r converge.Ref) bool {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, r.NS, r.Name)
		return !health.BindsLate(l.World, c)
	})
}

// aboutVolumes says that the scheduler's sentence counts nodes for the sake of volumes.
func aboutVolumes(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "volume") || strings.Contains(text, "storage")
}

// reasonOf is why most of the nodes that the pod asks for will not do. Where it asks for certain nodes, and there are
// some, it tells nothing that others are not they.
func reasonOf(l *converge.Look, p *corev1.Pod, text string) string {
	head, reasons, ok := strings.Cut(text, " nodes are available: ")
	if ok && asksForNodes(p) && len(nodesAsked(l.World, p)) > 0 {
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

func insufficient(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	what, ok := strings.CutPrefix(reasonOf(l, p, text), "Insufficient ")
	if !ok {
		if !strings.HasPrefix(reasonOf(l, p, text), "Too many pods") {
			return nil
		}
		what = morePods
	}
	says := "fits on no node for want of " + what
	if what == morePods {
		says = "fits on no node because those that it may run on have as many pods as they take"
	}
	f := &converge.Finding{Says: says + ": " + text, State: converge.Blocked, Waits: converge.ForName("Node", "with enough "+what),
		Next:   converge.Does("scheduler", "tries again when a pod ends or a node joins"),
		Advice: []string{"lower the pod's requests, remove other pods, or add a node"}}
	if what != morePods {
		size(l, f, p, corev1.ResourceName(what))
	} else {
		f.Says += fullest(l.World, p)
		f.Advice = []string{"remove other pods, add a node, or let nodes take more (maxPods of their agent)"}
	}
	if node := pinned(p); node != "" && what != morePods {
		f.Advice = []string{"lower its requests, or have fewer or smaller pods on " + node +
			", the only node that it is for: kubectl describe node " + node}
	}
	if !strings.HasSuffix(f.Says, "can ever take it") {
		makesWay(l.World, p, f)
	}
	if n := p.Status.NominatedNodeName; n != "" {
		says, until := victims(l.World, p, n)
		f.Next = converge.At(until, "scheduler", "puts the pod on %s when the pods that it preempted there are gone", n)
		if f.State, f.Says = converge.Waiting, f.Says+says; says != "" {
			f.Advice, f.NoCommand = nil, converge.ByNobody
			if v := slowest(l.World, p, n, until); v != nil {
				f.Advice, f.NoCommand = []string{"or do not wait for that: kubectl delete pod " + v.Name + " -n " + v.Namespace +
					" --grace-period=30"}, ""
			}
		}
	}
	if ptr.Deref(p.Spec.PreemptionPolicy, "") == corev1.PreemptNever {
		f.Advice = append([]string{
			"give it a priority class whose preemptionPolicy is not Never: its own keeps it from making room for itself"}, f.Advice...)
	}
	return f
}

// tainted: the nodes that the pod asks for keep it away. Whatever the scheduler's sentence counts, nodes that the pod
// does not ask for do not matter; and a node that joined since and does not fit has not changed the sentence.
func tainted(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if text == "" {
		return nil
	}
	var names []string
	var ill []converge.Ref
	taint := ""
	for _, n := range nodesAsked(l.World, p) {
		i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations,
				func(o corev1.Toleration) bool { return Tolerates(&o, &t) })
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
		if (strings.HasPrefix(taint, "node.kubernetes.io/") || health.StartupTaint(n) != nil) && !l.Health(kinds.Nodes, n).Converged() {
			ill = append(ill, converge.RefTo(kinds.Nodes, n))
		}
	}
	if len(names) == 0 {
		return nil
	}
	if taint == "cordoned" {
		return &converge.Finding{Says: "fits on no node because " + wanted(p) + " (" + words.List(names, 3) + ") are cordoned: " +
			text, State: converge.Blocked,
			Waits:  converge.On("Node", converge.Ref{Kind: kinds.Nodes, NS: "", Name: names[0]}, "spec.unschedulable"),
			Next:   converge.Does("scheduler", "tries again when a node is uncordoned or another one joins"),
			Advice: []string{"kubectl uncordon " + names[0]}}
	}
	f := &converge.Finding{Says: "fits on no node because " + wanted(p) + " (" + words.List(names,
		3) + ") have taints that it does not tolerate, such as " + taint + ": " + text, State: converge.Blocked,
		Waits: converge.ForName("Node", "without the taint "+taint),
		Next:  converge.Does("scheduler", "tries again when a node loses its taint or another one joins"), Below: ill,
		Advice: []string{"give the pod a toleration, or take the taint away: kubectl taint nodes " + names[0] + " " + taint + "-"}}
	if t := toleration(l, p, names[0]); t != "" {
		f.Advice = append([]string{t}, f.Advice...)
	}
	if s, ok := words.Meaning(Taints, taint); ok {
		f.Advice = strings.Split(s.Advice(), "\n")
	}
	return f
}

// wanted are the nodes that a pod may have, as a sentence begins.
func wanted(p *corev1.Pod) string {
	if asksForNodes(p) {
		return "those that it asks for"
	}
	return "all nodes"
}

// unsuitable is the rule for what the scheduler names in its sentence.
func unsuitable(what, advice string, marks ...string) func(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	return func(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
		for _, m := range marks {
			if strings.Contains(reasonOf(l, p, text), m) {
				f := &converge.Finding{Says: "fits on no node because of its " + what + ": " + text, State: converge.Blocked,
					Waits:  converge.ForName("Node", "that suits its "+what),
					Next:   converge.Does("scheduler", "tries again when a node or pod changes so that it could fit"),
					Advice: []string{advice}}
				if strings.HasPrefix(what, "persistent volume") {
					if atVolume(l, f, p) {
						return f
					}
					says, claim := reach(l, p)
					if f.Says += says; claim != "" {
						f.Advice = []string{"have a node there", "or, if what is on it may go, have a volume made elsewhere: kubectl delete pvc " + claim +
							" -n " + p.Namespace + " --wait=false && kubectl delete pod " + p.Name + " -n " + p.Namespace}
					}
				}
				if strings.HasPrefix(what, "node selector") {
					off, first := unlabelled(l.World, p), 0
					if near := others(l, p); len(near) > 0 {
						f.Advice, first = append(near, relabelling(l.World, p)...), 1
					}
					if label := labelling(l.World, p); label != "" {
						f.Advice = slices.Insert(f.Advice, first, label)
					}
					if f.Says += off; strings.Contains(off, " kubernetes.io/os=") || strings.Contains(off, " kubernetes.io/arch=") {
						f.Advice = []string{
							"add a node that has it: this label tells what a node is, so giving it to another does not help"}
					}
				}
				return f
			}
		}
		return nil
	}
}

func unschedulable(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if text == "" {
		return nil
	}
	return &converge.Finding{Says: "can't be scheduled: " + text, State: converge.Blocked,
		Next: converge.Does("scheduler", "tries again when something changes that could help")}
}

func notScheduled(l *converge.Look, p *corev1.Pod, _ string) *converge.Finding {
	if name := cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName); name == corev1.DefaultSchedulerName {
		if f := leaderGone(l, "kube-scheduler"); f != nil {
			return f
		}
	}
	return &converge.Finding{Says: "was not scheduled yet", State: converge.Progressing, Next: converge.Does("scheduler",
		"takes it when its turn comes")}
}

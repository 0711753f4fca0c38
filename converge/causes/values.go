package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// Values that stand in one object and are wanted in another.

// tolerating is advice to have the pods of a DaemonSet bear a taint of a node that keeps them off, and that taint; "": none does.
func tolerating(l *converge.Look, top converge.Ref, spec *corev1.PodSpec, node string) (taint, advice string) {
	n := resource.Get(l.Read, kinds.Nodes, "", node)
	for i := range cmp.Or(n, &corev1.Node{}).Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule || slices.ContainsFunc(spec.Tolerations,
			func(o corev1.Toleration) bool { return Tolerates(&o, t) }) {
			continue
		}
		return t.ToString(), "give its pod template a toleration of " + t.ToString() + ": kubectl patch daemonset " + top.Name + " -n " + top.NS +
			" -p '" + Tolerate(spec, t) + "'"
	}
	return "", ""
}

// flagged finds the flag that a program says it does not know.
var flagged = pattern.New(`(?i)(?:unknown (?:flag|command|shorthand flag|option)|not defined|unrecognized (?:arguments?|option)|` +
	`invalid option)[^-]{0,12}(--?[a-z0-9][\w.-]*)`)

// withoutFlag advises to leave out of a container's arguments what its program does not know; "": it is not there.
func withoutFlag(l *converge.Look, p *corev1.Pod, container, said string) string {
	m := flagged.FindStringSubmatch(said)
	top, ok := changeable(l.World, l.Kind, l.Obj)
	c := podspec.ContainerNamed(&p.Spec, container)
	t := templateAbove(l)
	if m == nil || !ok || c == nil || t == nil || top.Kind == kinds.CronJobs {
		return ""
	}
	at := slices.IndexFunc(t.Spec.Containers, func(o corev1.Container) bool { return o.Name == container })
	for field, list := range map[string][]string{"args": c.Args, "command": c.Command} {
		i := slices.IndexFunc(list, func(arg string) bool {
			arg, _, _ = strings.Cut(arg, "=")
			return strings.TrimLeft(arg, "-") == strings.TrimLeft(m[1], "-") && strings.HasPrefix(arg, "-")
		})
		if i < 0 || at < 0 {
			continue
		}
		path := converge.Pointer("spec", "template", "spec", "containers", strconv.Itoa(at), field, strconv.Itoa(i))
		change := []converge.Change{{Op: "remove", Path: path}}
		if !strings.Contains(list[i], "=") && i+1 < len(list) && !strings.HasPrefix(list[i+1], "-") { // its value goes, too
			change = append(change, change[0])
		}
		return "leave " + m[1] + " out, which this version of the program does not know: " + converge.Patched(top, change...)
	}
	return ""
}

// otherListener advises to name a listener that a route's gateway has in place of one that it has not.
func otherListener(l *converge.Look, f *converge.Finding, tree map[string]any) {
	spec, _ := tree["spec"].(map[string]any)
	parents, _ := spec["parentRefs"].([]any)
	for _, m := range mentions.Of(l).Mentions(tree) {
		gateway, _ := words.Tree(m.Obj)
		of, _ := gateway["spec"].(map[string]any)
		listeners, _ := of["listeners"].([]any)
		var has []string
		for _, item := range listeners {
			one, _ := item.(map[string]any)
			has = append(has, words.String(one, "name"))
		}
		for i, item := range parents {
			one, _ := item.(map[string]any)
			section := words.String(one, "sectionName")
			if words.String(one, "name") != m.Name || section == "" || len(has) == 0 || slices.Contains(has, section) {
				continue
			}
			at := "/spec/parentRefs/" + strconv.Itoa(i) + "/sectionName"
			f.Advice = append(converge.Choices(section, has, func(name string) string {
				return converge.Patched(converge.RefTo(l.Kind, l.Obj), converge.Put(at, name))
			}), f.Advice...)
			return
		}
	}
}

// enlarged tells how much a pool of Karpenter's may have in all, and has, and the command that lets it have a node for a pod, too: with
// twice what that asks for; "": it has no limits, or they do not keep the pod off.
func enlarged(w *converge.World, p *corev1.Pod, pool string) (says, command string) {
	k := general.KindNamed(w, "karpenter.sh", "NodePool")
	if k == nil {
		return "", ""
	}
	tree, _ := words.Tree(w.Read.Lookup(k, "", pool))
	spec, _ := tree["spec"].(map[string]any)
	status, _ := tree["status"].(map[string]any)
	limits, _ := spec["limits"].(map[string]any)
	used, _ := status["resources"].(map[string]any)
	raise := map[string]string{}
	for _, name := range []string{"cpu", "memory"} {
		limit, err := resource.ParseQuantity(fmt.Sprint(limits[name]))
		has, err2 := resource.ParseQuantity(fmt.Sprint(used[name]))
		if err != nil || err2 != nil {
			continue
		}
		for i := range p.Spec.Containers {
			asks := p.Spec.Containers[i].Resources.Requests[corev1.ResourceName(name)]
			has.Add(asks)
			has.Add(asks)
		}
		if has.Cmp(limit) > 0 {
			says += fmt.Sprintf("; nodepool/%s may have %s of %s in all, and has %v", pool, limit.String(), name, used[name])
			raise[name] = has.String()
		}
	}
	if len(raise) == 0 {
		return "", ""
	}
	return says, converge.Merged(converge.Ref{Kind: k, Name: pool}, raise, "spec", "limits")
}

// offered is the command that has a pool of Karpenter's offer a value of a label; "": it has no list of them.
func offered(w *converge.World, pool, key, value string) string {
	k := general.KindNamed(w, "karpenter.sh", "NodePool")
	if k == nil {
		return ""
	}
	tree, _ := words.Tree(w.Read.Lookup(k, "", pool))
	at := tree
	for _, field := range []string{"spec", "template", "spec"} {
		at, _ = at[field].(map[string]any)
	}
	list, _ := at["requirements"].([]any)
	for i, item := range list {
		one, _ := item.(map[string]any)
		if words.String(one, "key") == key && words.String(one, "operator") == "In" {
			return converge.Patched(converge.Ref{Kind: k, Name: pool}, converge.Add(fmt.Sprintf("/spec/template/spec/requirements/%d/values/-", i),
				strings.Fields(value)[0]))
		}
	}
	return ""
}

// claimFrom advises to correct what a claim is made from, where it would else be made as it was; "": it is made by hand.
func claimFrom(l *converge.Look, c *corev1.PersistentVolumeClaim) string {
	by := general.Maker(l)
	if s := setOf(l.World, c); by == nil && s != nil {
		if by = general.Maker(&converge.Look{World: l.World, Kind: kinds.StatefulSets, Obj: s}); by == nil {
			return "volumeClaimTemplates of statefulset/" + s.Name + ", which made the claim, can't be changed: make it anew, and delete " +
				"the claim and its pod: kubectl delete statefulset " + s.Name + " -n " + s.Namespace + " --cascade=orphan"
		}
	}
	if by == nil {
		return ""
	}
	says := "the claim is made for " + new(by.Object()).Short() + ": correct it there, then delete the claim: "
	if len(converge.Paths(by.Obj, func(_, text string) bool { return text == ptr.Deref(c.Spec.StorageClassName, "") })) > 0 {
		return says + "kubectl delete pvc " + c.Name + " -n " + c.Namespace // how it is corrected there stands beside
	}
	return says + "kubectl edit " + by.Kind.Info().GR().String() + " " + converge.Called(by)
}

package causes

import (
	"fmt"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// Queued has the words of Kueue about the Workload that it made for an object, as long as that may not run, and what helps, if that is
// known; "": there are none.
func Queued(w *converge.World, obj resource.Object) (told, advice string) {
	k := general.KindNamed(w, "kueue.x-k8s.io", "Workload")
	if k == nil {
		return "", ""
	}
	for load := range w.Read.ByOwner(k, string(obj.GetUID())) {
		if tree, ok := words.Tree(load); ok {
			told = words.OneLine(words.ComplaintIn(tree).Message)
			return told, queueQuota(&converge.Look{World: w, Kind: k, Obj: load}, told)
		}
	}
	return "", ""
}

// beyondQuota finds what a queue of Kueue's can't give: how much is asked for, or how much is lacking.
var beyondQuota = pattern.New(`insufficient (?:unused )?quota (?:in cohort )?for ([\w./-]+) in flavor ([\w.-]+), ` +
	`(?:request > maximum capacity \((\S+) > (\S+)\)|(\S+) more needed)`)

// queueQuota advises the quota that would do for what waits in a queue, in the ClusterQueue behind it; "": it
// does not wait for that, or the queue is not seen.
func queueQuota(l *converge.Look, message string) string {
	tree, _ := words.Tree(l.Obj)
	m := beyondQuota.FindStringSubmatch(message)
	spec, _ := tree["spec"].(map[string]any)
	if m == nil {
		return ""
	}
	local, _ := words.Tree(lookup(l, "LocalQueue", l.Obj.GetNamespace(), words.String(spec, "queueName")))
	of, _ := local["spec"].(map[string]any)
	name := words.String(of, "clusterQueue")
	queue, _ := words.Tree(lookup(l, "ClusterQueue", "", name))
	has, _ := queue["spec"].(map[string]any)
	groups, _ := has["resourceGroups"].([]any)
	for i, g := range groups {
		group, _ := g.(map[string]any)
		flavors, _ := group["flavors"].([]any)
		for j, item := range flavors {
			flavor, _ := item.(map[string]any)
			list, _ := flavor["resources"].([]any)
			for n, r := range list {
				one, _ := r.(map[string]any)
				if words.String(flavor, "name") != m[2] || words.String(one, "name") != m[1] {
					continue
				}
				is, err := resource.ParseQuantity(fmt.Sprint(one["nominalQuota"]))
				want, wrong := resource.ParseQuantity(m[3] + m[5])
				if err != nil || wrong != nil {
					return ""
				}
				wait := ""
				if m[5] != "" {
					want.Add(is)
					wait = "wait for what runs there, or "
				}
				return wait + fmt.Sprintf(`raise nominalQuota of clusterqueue/%s for %s in flavor %s, which is %s, to %s, or ask for less: `+
					`kubectl patch clusterqueues.kueue.x-k8s.io %s --type=json -p '[{"op":"replace",`+
					`"path":"/spec/resourceGroups/%d/flavors/%d/resources/%d/nominalQuota","value":"%s"}]'`, name, m[1], m[2], is.String(),
					want.String(), name, i, j, n, want.String())
			}
		}
	}
	return ""
}

// lookup is an object of a kind of the same project as another one; nil: there is none.
func lookup(l *converge.Look, kind, ns, name string) resource.Object {
	k := general.KindNamed(l.World, l.Kind.Info().GVK.Group, kind)
	if k == nil || name == "" {
		return nil
	}
	if !k.Info().Namespaced {
		ns = ""
	}
	return l.Read.Lookup(k, ns, name)
}

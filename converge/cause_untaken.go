package converge

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// downByProject are workloads that do not run, by the project whose program each seems to be.
type downByProject map[string]*appsv1.Deployment

// projectDown is the workload of the project that a kind is of, by its name, if it does not run: velero of velero.io.
func projectDown(w *World, of resource.Kind) (k resource.Kind, found resource.Object, off bool) {
	project, _, _ := strings.Cut(domain(of.Info().GVK.Group), ".")
	down := Kept[downByProject](w)
	if *down == nil {
		*down = downByProject{}
		for _, d := range resource.List(w.Read, kinds.Deployments, "") {
			name, rest, _ := strings.Cut(d.Name, "-controller")
			name, more, _ := strings.Cut(name, "-operator")
			if rest+more == "" && d.Status.ReadyReplicas == 0 && (ptr.Deref(d.Spec.Replicas, 1) == 0 || !w.Health(kinds.Deployments, d).Converged()) {
				(*down)[name] = d
			}
		}
	}
	if d := (*down)[project]; d != nil {
		return kinds.Deployments, d, ptr.Deref(d.Spec.Replicas, 1) == 0
	}
	return nil, nil, false
}

// untaken tells of what was made for an object and has no status, though it is there for long: nobody has taken it up.
func untaken(l *look) string {
	tree, _ := content(l.obj)
	for _, m := range l.search().mentions(tree) {
		if got, custom := content(m.obj); custom && m.obj != nil && got["status"] == nil && l.hasStatus(m.Kind) &&
			strings.HasPrefix(m.field, "status.") && l.Now.Sub(m.obj.GetCreationTimestamp().Time) > slowStart {
			return "; " + new(objectOf(m.Kind, m.obj)).Short() + ", which it goes by, has no status: nobody seems to have taken it up, as if no " +
				"controller for " + m.Kind.Info().GR().String() + " ran"
		}
	}
	for _, k := range l.Kinds.All() {
		if !k.Info().Custom {
			continue
		}
		for obj := range l.Read.ByOwner(k, string(l.obj.GetUID())) {
			if tree, _ := content(obj); tree["status"] == nil && l.hasStatus(k) && l.Now.Sub(obj.GetCreationTimestamp().Time) > slowStart {
				return "; " + new(objectOf(k, obj)).Short() + ", which was made for it, has no status: nobody seems to have taken it up, " +
					"as if no controller for " + k.Info().GR().String() + " ran"
			}
		}
	}
	return ""
}

// plainly takes the message out of an error that comes as JSON.
func plainly(message string) string {
	tree := map[string]any{}
	if strings.HasPrefix(message, "{") && json.Unmarshal([]byte(message), &tree) == nil {
		for _, name := range slices.Sorted(maps.Keys(tree)) { // as Flink's throwableList: the last is the root
			list, _ := tree[name].([]any)
			for _, item := range list {
				if part, _ := item.(map[string]any); messageOf(part) != "" {
					message = messageOf(part)
				}
			}
		}
		if strings.HasPrefix(message, "{") {
			message = cmp.Or(messageOf(tree), message)
		}
	}
	return message
}

// hasty finds words by which a controller says that something is not so far yet.
var hasty = regexp.MustCompile(`(?i)\b(not yet|wait(s|ing)? for|to become|not ready|unready)\b`)

// outdated tells that what is waited for is well by now, or says nothing of how it is.
func outdated(l *look, f *Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || f.State == Blocked || !hasty.MatchString(message) {
		return
	}
	for _, m := range l.search().mentions(tree) {
		part, custom := content(m.obj)
		status, _ := part["status"].(map[string]any)
		if m.obj == nil || m.loose || m.part != "" || !custom && m.Kind != kinds.PersistentVolumeClaims || !l.Health(m.Kind, m.obj).Converged() ||
			!standsIn(message, m.Name) && !m.meantBy(message) && !standsIn(message, m.obj.GetAnnotations()[composedAs]) {
			continue
		}
		name := new(objectOf(m.Kind, m.obj)).Short()
		if custom && !speaks(status) {
			f.Aside = name + " has no word on how it is: who waits for that has to be told not to (Crossplane: readinessChecks)"
			return
		}
		f.Aside = name + " is what it should be by now: what is said may be old"
		f.Advice = append([]string{"have it looked at again, by a change that means nothing: kubectl annotate " +
			l.kind.Info().GR().String() + " " + called(l) + " look-again=1 --overwrite"}, f.Advice...)
		return
	}
}

// composedAs is the annotation in which Crossplane keeps the name that its composition has for a part.
const composedAs = "crossplane.io/composition-resource-name"

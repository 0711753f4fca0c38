package converge

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// projectDown is the workload of the project that a kind is of, by its name, if it does not run: velero of velero.io.
func projectDown(w *World, of resource.Kind) (k resource.Kind, found resource.Object, off bool) {
	project, _, _ := strings.Cut(domain(of.Info().GVK.Group), ".")
	if w.down == nil {
		w.down = map[string]*appsv1.Deployment{}
		for _, d := range resource.List(w.Read, kinds.Deployments, "") {
			name, rest, _ := strings.Cut(d.Name, "-controller")
			name, more, _ := strings.Cut(name, "-operator")
			if rest+more == "" && d.Status.ReadyReplicas == 0 && (deref(d.Spec.Replicas, 1) == 0 || !w.Health(kinds.Deployments, d).Converged()) {
				w.down[name] = d
			}
		}
	}
	if d := w.down[project]; d != nil {
		return kinds.Deployments, d, deref(d.Spec.Replicas, 1) == 0
	}
	return nil, nil, false
}

// untaken tells of what was made for an object and has no status, though it is there for long: nobody has taken it up.
func untaken(l *look) string {
	for _, k := range l.Kinds.All() {
		if !k.Info().Custom {
			continue
		}
		for obj := range l.Read.ByOwner(k, string(l.obj.GetUID())) {
			if tree, _ := content(obj); tree["status"] == nil && l.hasStatus(k) && l.Now.Sub(obj.GetCreationTimestamp().Time) > slowStart {
				return "; " + ptr(objectOf(k, obj)).Short() + ", which was made for it, has no status: nobody seems to have taken it up, " +
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
			message = orElse(messageOf(tree), message)
		}
	}
	return message
}

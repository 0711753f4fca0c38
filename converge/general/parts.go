package general

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// RefusedFor is the time that a refusal is held against a controller that has not written since.
const RefusedFor = 10 * time.Minute

// PartsOf are those of what was made for an object that are not well. Below one that says nothing of itself lies what was made for that;
// a claim owns what fills it.
func PartsOf(l *converge.Look, owner resource.Object, depth int) (bad []converge.Ref) {
	for _, k := range l.Kinds.All() {
		if k.Info().Virtual {
			continue
		}
		for obj := range l.Read.ByOwner(k, string(owner.GetUID())) {
			if !l.Health(k, obj).Converged() {
				bad = append(bad, converge.RefTo(k, obj))
			} else if (k.Info().Custom || k == resource.Kind(core.PersistentVolumeClaims)) && depth < converge.MaxDepth {
				bad = append(bad, PartsOf(l, obj, depth+1)...)
			}
		}
	}
	return bad
}

// Spoken finds an object in a controller's words: HelmChart 'a/web', Job/a/web, Secret "web", Pods resource web.
var Spoken = pattern.New(`\b([A-Z][A-Za-z]+)(?: resource)?[ /]['"]?(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// KubeletsPod finds a pod in the words of a kubelet, which others repeat: pod=web-0_default(uid).
var KubeletsPod = pattern.New(`\bpod="?([a-z0-9][a-z0-9.-]*)_([a-z0-9-]+)`)

// NewestWarning is the last that was told of the object within an hour; nil: nothing was.
func NewestWarning(l *converge.Look) (best *corev1.Event) {
	for _, e := range l.Events(l.Obj.GetUID()) {
		if l.Now.Sub(converge.Told(e)) < time.Hour && converge.Told(e).After(converge.Changed(l.Obj)) &&
			(best == nil || converge.Told(best).Before(converge.Told(e))) {
			best = e
		}
	}
	return best
}

// Applied finds among the objects that a status lists, as Argo CD's of what it applied, one that is not well.
func Applied(s *mentions.Search, tree map[string]any) (bad []converge.Ref) {
	status, _ := tree["status"].(map[string]any)
	s.Found = nil
	for _, field := range []string{"resources", "childReferences", "relatedObjects"} {
		s.Walk("status."+field, "resourceRef", status[field], 0)
	}
	for _, field := range slices.Sorted(maps.Keys(status)) { // as Camel K has the kit of an integration
		if part, _ := status[field].(map[string]any); words.String(part, "name") != "" && len(s.KindsBy(field, "", "", true)) > 0 {
			s.Walk("status."+field, field+"Ref", part, 0)
		}
	}
	for _, m := range s.Found {
		if m.Obj != nil && !s.Health(m.Kind, m.Obj).Converged() {
			bad = append(bad, m.Ref)
		}
	}
	done, _ := status["operationState"].(map[string]any)
	for _, m := range Spoken.FindAllStringSubmatch(words.String(done, "message"), converge.MaxBranches) { // what a sync waits for
		for _, k := range s.KindsBy(m[1], "", "", true) {
			ns := cmp.Or(m[2], cmp.Or(Destination(tree), s.Obj.GetNamespace()))
			if obj := s.Read.Lookup(k, ns, m[3]); obj != nil && !s.Health(k, obj).Converged() {
				bad = append(bad, converge.Ref{Kind: k, NS: ns, Name: m[3]})
			}
		}
	}
	return bad
}

// Destination is the namespace that an application of Argo CD goes to.
func Destination(tree map[string]any) string {
	spec, _ := tree["spec"].(map[string]any)
	to, _ := spec["destination"].(map[string]any)
	return words.String(to, "namespace")
}

// KindNamed finds a kind by group and name, in whichever version it is known; nil: nobody knows it.
func KindNamed(w *converge.World, group, name string) resource.Kind {
	for _, k := range w.Kinds.All() {
		if gvk := k.Info().GVK; gvk.GroupKind() == (schema.GroupKind{Group: group, Kind: name}) {
			return k
		}
	}
	return nil
}

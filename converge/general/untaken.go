package general

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// untaken tells of what was made for an object and has no status, though it is there for long: nobody has taken it up.
func untaken(l *converge.Look, f *converge.Finding) string {
	tree, _ := words.Tree(l.Obj)
	for _, m := range mentions.Of(l).Mentions(tree) {
		if got, custom := words.Tree(m.Obj); custom && m.Obj != nil && got["status"] == nil && l.HasStatus(m.Kind) &&
			strings.HasPrefix(m.Field, "status.") && l.Now.Sub(m.Obj.GetCreationTimestamp().Time) > SlowStart {
			return "; " + new(converge.ObjectOf(m.Kind, m.Obj)).Short() +
				", which it goes by, has no status: nobody seems to have taken it up, as if no " +
				"controller for " + m.Kind.Info().GR().String() + " ran"
		}
	}
	for _, k := range l.Kinds.All() {
		if !k.Info().Custom {
			continue
		}
		for obj := range l.Read.ByOwner(k, string(l.Obj.GetUID())) {
			tree, _ := words.Tree(obj)
			if status, _ := tree["status"].(map[string]any); len(status) > 0 || l.Now.Sub(obj.GetCreationTimestamp().Time) < SlowStart {
				continue
			}
			if says := classDown(l, f, k, obj); says != "" {
				return says
			}
			if tree["status"] == nil && l.HasStatus(k) {
				return "; " + new(converge.ObjectOf(k, obj)).Short() +
					", which was made for it, has no status: nobody seems to have taken it up, " +
					"as if no controller for " + k.Info().GR().String() + " ran"
			}
		}
	}
	return ""
}

// classDown has the program that serves the class of an object as the cause, if that is seen not to run: kourier, say, of the annotation
// networking.knative.dev/ingress.class: kourier.ingress.networking.knative.dev.
func classDown(l *converge.Look, f *converge.Finding, of resource.Kind, obj resource.Object) string {
	annotations := obj.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, _, _ := strings.Cut(annotations[key], ".")
		if !strings.HasSuffix(key, "class") || len(name) < 4 {
			continue
		}
		for _, k := range l.Served(Deployments) {
			for d := range l.Read.Each(k, "") {
				want, ready := l.Workloads().Copies(d)
				if !strings.Contains(d.GetName(), name) || !strings.Contains(d.GetName(), "controller") || ready > 0 {
					continue
				}
				short := new(converge.ObjectOf(k, d)).Short()
				f.Waits = converge.On("Object", converge.RefTo(k, d), "")
				f.State, f.Next = converge.Missing, converge.Does(short, "takes it up when it runs")
				says := "; " + new(converge.ObjectOf(of, obj)).Short() + ", which was made for it, has no status: it is of the class " +
					annotations[key] + ", and " + short + " in namespace " + d.GetNamespace() + " "
				if want > 0 {
					f.Below = []converge.Ref{converge.RefTo(k, d)}
					return says + "does not run"
				}
				f.Advice = append([]string{"kubectl scale " + short + " -n " + d.GetNamespace() + " --replicas=1"}, f.Advice...)
				return says + "is scaled to 0"
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
				if part, _ := item.(map[string]any); words.MessageOf(part) != "" {
					message = words.MessageOf(part)
				}
			}
		}
		if strings.HasPrefix(message, "{") {
			message = cmp.Or(words.MessageOf(tree), message)
		}
	}
	return message
}

// hasty finds words by which a controller says that something is not so far yet.
var hasty = pattern.New(`(?i)\b(not yet|wait(s|ing)? for|to become|not ready|unready|(does not|doesn't) have (a|any) ready)\b`)

// outdated tells that what is waited for is well by now, or says nothing of how it is.
func outdated(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked || !hasty.MatchString(message) {
		return
	}
	if saidOld(l, f, message) {
		return
	}
	for _, m := range mentions.Of(l).Mentions(tree) {
		part, custom := words.Tree(m.Obj)
		status, _ := part["status"].(map[string]any)
		if m.Obj == nil || m.Loose || m.Part != "" ||
			!custom && m.Kind != core.PersistentVolumeClaims && m.Obj.GetAnnotations()[composedAs] == "" ||
			!l.Health(m.Kind, m.Obj).Converged() ||
			!words.StandsIn(message, m.Name) && !meantBy(&m, message) && !words.StandsIn(message, m.Obj.GetAnnotations()[composedAs]) {
			continue
		}
		name := new(converge.ObjectOf(m.Kind, m.Obj)).Short()
		if custom && !Speaks(status) || m.Kind == core.ConfigMaps || m.Kind == core.Secrets {
			f.Aside = name + " has no word on how it is: who waits for that has to be told not to (Crossplane: readinessChecks)"
			if m.Obj.GetAnnotations()[composedAs] != "" {
				f.Advice = append([]string{"in its composition, let " + m.Obj.GetAnnotations()[composedAs] + " count as ready once it is " +
					"there: readinessChecks with type None, or the function function-auto-ready"}, f.Advice...)
			}
			return
		}
		old(l, f, name)
		return
	}
}

// saidOld finds what the words say by kind and name is not ready, as Knative's: Configuration "web" does not have any ready Revision.
func saidOld(l *converge.Look, f *converge.Finding, message string) bool {
	for _, m := range Spoken.FindAllStringSubmatch(message, converge.MaxBranches) {
		for _, k := range mentions.Of(l).KindsBy(m[1], "", "", true) {
			obj := l.Read.Lookup(k, cmp.Or(m[2], l.Obj.GetNamespace()), m[3])
			got, custom := words.Tree(obj)
			status, _ := got["status"].(map[string]any)
			if obj != nil && custom && obj.GetUID() != l.Obj.GetUID() && words.SaysWell(status) && l.Health(k, obj).Converged() {
				old(l, f, new(converge.ObjectOf(k, obj)).Short())
				return true
			}
		}
	}
	return false
}

// old says that what is waited for is well by now.
func old(l *converge.Look, f *converge.Finding, name string) {
	f.Aside = name + " is what it should be by now: what is said may be old"
	f.Advice = append([]string{"have it looked at again, by a change that means nothing: kubectl annotate " +
		l.Kind.Info().GR().String() + " " + converge.Called(l) + " look-again=1 --overwrite"}, f.Advice...)
}

// composedAs is the annotation in which Crossplane keeps the name that its composition has for a part.
const composedAs = "crossplane.io/composition-resource-name"

package general

import (
	"fmt"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// untold explains an object of a kind that users defined whose status nobody ever wrote, though its definition has one: it can't be said
// to be what it should be. Many kinds have a status that nobody writes, so only a question for the object itself comes to this.
func untold(w *converge.World, k resource.Kind, obj resource.Object) (g *convergence.Gap) {
	tree, custom := words.Tree(obj)
	status, _ := tree["status"].(map[string]any)
	if !custom || !w.Outside() || len(status) > 0 || obj.GetDeletionTimestamp() != nil || !w.HasStatus(k) {
		return nil
	}
	if g := statusless(k, obj, tree); g != nil {
		return g
	}
	gr := k.Info().GR().String()
	says := "has a status that nobody has written yet"
	told, all := 0, 0
	for other := range w.Read.Each(k, "") {
		tree, _ := words.Tree(other)
		if status, _ := tree["status"].(map[string]any); len(status) > 0 {
			told++
		}
		all++
	}
	if told > 0 {
		says += fmt.Sprintf(", though %d of %s have one", told, words.Count(all, k.Info().Singular))
	}
	if why, advice := unkept(w, k, obj); why != "" {
		says += ": it " + why
		defer func() { g.Advise([]string{advice}) }()
	}
	who := "the controller of " + gr
	l := &converge.Look{World: w, Kind: k, Obj: obj}
	s := &converge.Step{Object: converge.ObjectOf(k, obj), Cause: "NotKnown", Health: converge.Health{Says: says,
		Since: obj.GetCreationTimestamp().Time},
		Finding: converge.Finding{Says: says, Owner: who, State: converge.Resting, Waits: converge.On("Field", converge.RefTo(k, obj),
			"status"),
			Next:   converge.Does(who, "writes its status, if it runs and writes one"),
			Advice: []string{"look whether its controller runs, and at its log: kubectl get pods -A"}}}
	if logs := Program(l, who); logs != "" {
		s.Advice = []string{"read its log: " + logs}
	}
	unknown := ", so whether it is what it should be is not known; neither is whether a controller watches " + gr
	if elsewhere := WatchedElsewhere(l, who); elsewhere != "" {
		unknown = "; " + elsewhere + ", so whether it is what it should be is not known"
		s.Advice = append([]string{"have it watch namespace " + obj.GetNamespace() + " too, or make the object where it does"}, s.Advice...)
	}
	g = s.Gap()
	g.Verdict = s.Object.Short() + " " + says + unknown
	return g
}

// keepers are of kinds that a part of another object looks after, which a label names: without the label, or that part, nobody does.
var keepers = []struct {
	group, kind, label, by string
	part                   []string
}{
	{"kafka.strimzi.io", "KafkaUser", "strimzi.io/cluster", "Kafka", []string{"entityOperator", "userOperator"}},
	{"kafka.strimzi.io", "KafkaTopic", "strimzi.io/cluster", "Kafka", []string{"entityOperator", "topicOperator"}},
	{"kafka.strimzi.io", "KafkaConnector", "strimzi.io/cluster", "KafkaConnect", nil},
}

// unkept says why nobody looks after an object, and what helps; "": that is not known.
func unkept(w *converge.World, k resource.Kind, obj resource.Object) (says, advice string) {
	gvk := k.Info().GVK
	for _, at := range keepers {
		if gvk.Group != at.group || gvk.Kind != at.kind {
			continue
		}
		name, ns := obj.GetLabels()[at.label], obj.GetNamespace()
		if name == "" {
			return "has no label " + at.label + ", by which it is taken up", fmt.Sprintf("kubectl label %s %s -n %s %s=NAME", k.Info().GR(),
				obj.GetName(), ns, at.label)
		}
		by := KindNamed(w, at.group, at.by)
		if by == nil || !w.Sees(by, ns) {
			return "", ""
		}
		keeper := w.Read.Lookup(by, ns, name)
		if keeper == nil {
			return "is for " + by.Info().Singular + "/" + name + ", which is not in namespace " + ns,
				"make it where that is, or correct its label " + at.label + ": kubectl get " + by.Info().GR().String() + " -A"
		}
		tree, _ := words.Tree(keeper)
		spec, _ := tree["spec"].(map[string]any)
		for _, field := range at.part {
			next, is := spec[field].(map[string]any)
			if !is {
				return "is for " + by.Info().Singular + "/" + name + ", which has no " + strings.Join(at.part, "."),
					"give it that: kubectl edit " + by.Info().GR().String() + " " + name + " -n " + ns
			}
			spec = next
		}
	}
	return "", ""
}

// silentKinds are those whose controllers write no status, by design: the kind, or "" for all of the group, and a field with its value
// where that is so of some.
var silentKinds = []struct{ group, kind, field, value, says, advice string }{
	{"source.toolkit.fluxcd.io", "HelmRepository", "type", "oci", "has no status and needs none: who takes a chart from it asks the registry",
		"see whether those that take charts from it are well: kubectl get helmreleases.helm.toolkit.fluxcd.io -A"},
	{"networking.istio.io", "", "", "", byIstio, analyzed}, {"security.istio.io", "", "", "", byIstio, analyzed},
}

const (
	byIstio  = "has no status, which Istio writes only if it is set up so"
	analyzed = "see what Istio makes of it: istioctl analyze"
)

// statusless tells of an object whose controller writes no status; nil: it may write one.
func statusless(k resource.Kind, obj resource.Object, tree map[string]any) *convergence.Gap {
	spec, _ := tree["spec"].(map[string]any)
	for _, s := range silentKinds {
		gvk := k.Info().GVK
		if gvk.Group != s.group || s.kind != "" && gvk.Kind != s.kind || s.field != "" && words.String(spec, s.field) != s.value {
			continue
		}
		g := (&converge.Step{Object: converge.ObjectOf(k, obj), Cause: "AtRest", Health: converge.Health{Says: "has no gap that is known",
			Since: converge.Changed(obj)}, Finding: converge.Finding{Says: s.says, Owner: converge.Person, State: converge.Resting,
			Next: converge.PersonDoes("changes it, if that is not what is meant"), Advice: []string{s.advice}}}).Gap()
		g.Because, g.Verdict = s.says, new(converge.ObjectOf(k, obj)).Short()+" has no gap that is known: it "+s.says
		return g
	}
	return nil
}

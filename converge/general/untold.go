package general

import (
	"fmt"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// untold explains an object of a kind that users defined whose status nobody ever wrote, though its definition has one: it can't be said
// to be what it should be. Many kinds have a status that nobody writes, so only a question for the object itself comes to this.
func untold(w *converge.World, k resource.Kind, obj resource.Object) *convergence.Gap {
	tree, custom := words.Tree(obj)
	status, _ := tree["status"].(map[string]any)
	if !custom || !w.Outside() || len(status) > 0 || obj.GetDeletionTimestamp() != nil || !w.HasStatus(k) {
		return nil
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
	g := s.Gap()
	g.Verdict = s.Object.Short() + " " + says + unknown
	return g
}

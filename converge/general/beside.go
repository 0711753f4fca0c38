package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// Of an object with which nothing seems to be wrong, whoever asks for it by name hears what it names or selects that is not there, and
// what its controller says of it beside that all is well. None of it is a gap: it may be meant so.

// A Remark is such a thing, with what would help.
type Remark struct {
	Says   string
	Wait   *convergence.Wait
	Advice string
	Part   *converge.Step // of what was made for it, what is not well
}

// Templated are the kinds of Kubernetes whose templates name what only matters when pods are made of them.
var Templated = []schema.GroupResource{{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "statefulsets"},
	{Group: "apps", Resource: "daemonsets"}, {Group: "batch", Resource: "jobs"}, {Group: "batch", Resource: "cronjobs"},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}, {Group: "resource.k8s.io", Resource: "resourceclaims"}}

// Besides reads what the status says beside that all is well: conditions with words for what went wrong, work that takes long, and the
// last warning.
func Besides(s *mentions.Search, tree map[string]any) (list []Remark) {
	status, _ := tree["status"].(map[string]any)
	conds := words.ConditionsIn(status)
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		c := conds[typ]
		late := !c.Since().IsZero() && s.Now.Sub(c.Since()) > 10*time.Minute
		busy := c.Status == "True" && (typ == "Progressing" || typ == "Reconciling") && late && strings.HasPrefix(c.Reason, "Wait")
		if !busy && (c.Status != "False" || words.WrongBy(typ) != "" || !words.Faulty.MatchString(c.Message)) {
			continue
		}
		says := fmt.Sprintf("says %s=%s of itself", typ, c.Status)
		if !c.Since().IsZero() {
			says += " since " + words.Ago(s.Now.Sub(c.Since()))
		}
		list = append(list, Remark{Says: says + ": " + words.OneLine(cmp.Or(c.Message, c.Reason)), Advice: helps(s, c.Message)})
	}
	if all := words.CountsOf(status); all != "" {
		list = append(list, Remark{Says: "counts " + all})
	}
	if e := NewestWarning((&converge.Look{World: s.World, Obj: s.Obj})); e != nil {
		list = append(list, Remark{Says: "has a warning of " + words.Ago(s.Now.Sub(converge.Told(e))) + " ago, " + e.Reason + ": " +
			words.OneLine(e.Message), Advice: helps(s, e.Message)})
	}
	return list
}

// helps finds advice about the words of a controller in the tables; "": they do not have them.
func helps(s *mentions.Search, message string) string {
	i, l := s.Kind.Info(), &converge.Look{World: s.World, Kind: s.Kind, Obj: s.Obj}
	said, ok := words.Meaning(words.ByGroup, strings.ToLower(i.GVK.Group+"/"+i.GVK.Kind+" "+message))
	if !ok {
		said, ok = words.Meaning(words.Overheard, strings.ToLower(message))
	}
	if !ok {
		return ""
	}
	return converge.Filled(l, said.Advice())
}

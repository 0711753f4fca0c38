package general

import (
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/core"
)

// brokenOff names the Secret in which Helm notes an operation that was broken off: as long as it is there, Helm begins no other one.
func brokenOff(l *converge.Look, f *converge.Finding, message string) {
	if !strings.Contains(message, "another operation (install/upgrade/rollback) is in progress") {
		return
	}
	tree, _ := words.Tree(l.Obj)
	spec, _ := tree["spec"].(map[string]any)
	for obj := range l.Read.ByLabel(core.Secrets, "", "owner", "helm") {
		has := obj.GetLabels()
		if !strings.HasPrefix(has["status"], "pending-") || !words.StandsIn(message, has["name"]) &&
			words.String(spec, "releaseName") != has["name"] && l.Obj.GetName() != has["name"] {
			continue
		}
		f.Says += "; secret/" + obj.GetName() + " has it as " + has["status"]
		f.State, f.Waits = converge.Blocked, converge.On("Object", converge.RefTo(core.Secrets, obj), "")
		f.Next = converge.PersonDoes("takes that note away; %s goes on then", f.Owner)
		f.Advice = []string{"if nobody works on it any more, take the note of it away, and the version before counts: kubectl delete secret " +
			obj.GetName() + " -n " + obj.GetNamespace()}
		return
	}
}

package general

import (
	"maps"
	"slices"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
)

// lacksVariable advises to give the containers of an object a variable that their program wants, where the object at the top has them.
func lacksVariable(l *converge.Look, f *converge.Finding, message string) {
	m := words.Unset.FindStringSubmatch(message)
	if m == nil || len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	var top *converge.Look
	at := ""
	for up := l; up != nil; up = Maker(up) {
		tree, custom := words.Tree(up.Obj)
		if path := containersIn("spec", tree["spec"], 0); custom && path != "" {
			top, at = up, path
		}
	}
	if top != nil {
		f.Advice = append([]string{"give it the variable " + m[1] + m[2] + ", at " + at + "[].env: kubectl edit " +
			top.Kind.Info().GR().String() + " " + converge.Called(top)}, f.Advice...)
	}
}

// containersIn is the field of a spec that has containers; "": none has.
func containersIn(path string, v any, depth int) string {
	at, _ := v.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(at)) {
		if _, list := at[field].([]any); list && field == "containers" {
			return path + "." + field
		}
		if depth < 6 {
			if in := containersIn(path+"."+field, at[field], depth+1); in != "" {
				return in
			}
		}
	}
	return ""
}

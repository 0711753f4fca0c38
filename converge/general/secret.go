package general

import (
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
)

// unknownThere finds words by which the other side does not take who asks for whom he says to be.
var unknownThere = pattern.New(`(?i)\b401\b|unauthorized|unauthenticated|authentication (?:required|failed)|logon denied|` +
	`bad credentials|access ?denied|` +
	`invalid (?:user|username|password|credential|token|api ?key|access ?key|client|role|secret)|invalid_client|invalidaccesskeyid|` +
	`signaturedoesnotmatch|wrong password|incorrect (?:user|password)`)

// withSecret names the Secret that has the credentials of an object, where those are not taken.
func withSecret(l *converge.Look, f *converge.Finding, message string) {
	ns := l.Obj.GetNamespace()
	if ns == "" || !unknownThere.MatchString(message) || strings.Contains(message, "system:serviceaccount:") {
		return
	}
	tree, _ := words.Tree(l.Obj)
	var names []string
	see := func(name string) {
		if !slices.Contains(names, name) && (!l.Sees(core.Secrets, ns) || l.Read.Lookup(core.Secrets, ns, name) != nil) {
			names = append(names, name)
		}
	}
	if secretsIn(tree["spec"], 0, see); len(names) == 0 { // as a backup works with what its cluster has
		for _, m := range mentions.Of(l).Mentions(tree) {
			if named, _ := words.Tree(m.Obj); m.Obj != nil && m.NS == ns {
				secretsIn(named["spec"], 0, see)
			}
		}
	}
	if len(names) == 1 {
		f.Advice = append([]string{"correct the credentials that it has from secret/" + names[0] + ", or give that account the right at the " +
			"other side: kubectl edit secret " + names[0] + " -n " + ns}, f.Advice...)
	}
}

// secretsIn goes through the names of Secrets in a spec: of fields that are called so.
func secretsIn(v any, depth int, see func(name string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if strings.Contains(strings.ToLower(field), "secret") {
				part, _ := v[field].(map[string]any)
				for _, name := range []string{words.String(v, field), words.String(part, "name"), words.String(part, "secretName")} {
					if name != "" {
						see(name)
					}
				}
			}
			if depth < 8 {
				secretsIn(v[field], depth+1, see)
			}
		}
	case []any:
		for _, item := range v {
			secretsIn(item, depth+1, see)
		}
	}
}

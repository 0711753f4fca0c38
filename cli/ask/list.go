package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/trail"
)

// listOf words gaps, a sentence each; those that one thing holds up stand together below it.
func (a *Asker) listOf(list []*convergence.Gap) string {
	var b strings.Builder
	held := map[string][]*convergence.Gap{}
	for _, g := range list {
		if key := rootOf(g); key != "" {
			held[key] = append(held[key], g)
		}
	}
	later := false
	for _, g := range list {
		if g.State == converge.Latent && !later {
			later = true
			b.WriteString("\nnothing is stuck by these yet:\n")
		}
		all := held[rootOf(g)]
		if len(all) < 3 {
			fmt.Fprintf(&b, "%s%s\n    %s, %s, for %s\n", at(g.Object.Namespace), g.Verdict, g.Owner, inWords(g.State), a.since(g.Since))
			continue
		}
		if all[0] == g {
			oldest := slices.MinFunc(all, func(x, y *convergence.Gap) int { return x.Since.Compare(y.Since.Time) })
			fmt.Fprintf(&b, "%s%s\n    holds up %d: %s\n    %s, %s, for %s\n", at(waitsIn(g)), rootText(g), len(all), namesOf(all), g.Owner,
				inWords(g.State), a.since(oldest.Since))
		}
	}
	return b.String()
}

// rootOf names the thing that holds gaps up: the object that they wait for, and why; "" when they wait for none.
func rootOf(g *convergence.Gap) string {
	w := g.Waits
	if w == nil || w.On == nil || w.On.Name == g.Object.Name && w.On.Kind == g.Object.Kind {
		return ""
	}
	return g.Cause + " " + w.On.Resource + " " + w.On.Namespace + " " + w.On.Name
}

func waitsIn(g *convergence.Gap) string { return g.Waits.On.Namespace }

// rootText words what holds others up.
func rootText(g *convergence.Gap) string {
	if len(g.Chain) > 0 {
		deepest := slices.MaxFunc(g.Chain, func(a, b convergence.Link) int { return cmp.Compare(a.Depth, b.Depth) })
		if deepest.Object.Kind == g.Waits.On.Kind && deepest.Object.Name == g.Waits.On.Name {
			return deepest.Object.Short() + " " + deepest.Says
		}
	}
	return g.Waits.On.Short() + " is waited for: " + g.Because
}

// namesOf names a few of the objects that are held up.
func namesOf(list []*convergence.Gap) string {
	var names []string
	for i, g := range list {
		if i == 5 {
			return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", len(list)-i)
		}
		names = append(names, g.Object.Short())
	}
	return strings.Join(names, ", ")
}

// changed words the last change by somebody who is no loop before the gap came about, as the server's trail has it; "" when it has none.
func (a *Asker) changed(ctx context.Context, g *convergence.Gap) string {
	o := &g.Object
	q := url.Values{"resource": {o.Resource}, "namespace": {o.Namespace}, "name": {o.Name}, "since": {"24h"}}
	data, err := a.Raw.Get().RequestURI(trail.Page + "?" + q.Encode()).DoRaw(ctx)
	if err != nil {
		return ""
	}
	best := ""
	for dec := json.NewDecoder(strings.NewReader(string(data))); ; {
		var w trail.Write
		if dec.Decode(&w) != nil {
			return best
		}
		if w.Resource != o.Resource || w.Name != o.Name || w.Namespace != o.Namespace || w.Cause != nil || w.What == "status" {
			continue
		}
		who := w.User
		if who == "" {
			who = w.By()
		}
		did := map[string]string{trail.Created: "created it", trail.Marked: "deleted it", trail.Deleted: "deleted it"}[w.Verb]
		if best = w.At.UTC().Format("15:04:05 MST") + ": " + who + " " + cmp.Or(did, "changed it"); w.What != "" {
			best += " (" + w.What + ")"
		}
	}
}

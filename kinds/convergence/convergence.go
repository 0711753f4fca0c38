// Package convergence declares the kinds by which kloop tells what has not converged and why: gaps, loops and
// fights. They are virtual: nothing of them is stored, and nobody can write them. By a fourth one, reports, processes that
// run loops tell the server about them.
package convergence

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// GroupVersion is the group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: "convergence.kloop.dev", Version: "v1alpha1"}

var readOnly = []string{"get", "list", "watch"}

// Gaps declares the kind.
var Gaps = &resource.Def[*Gap]{
	GVK: GroupVersion.WithKind("Gap"), Plural: "gaps", Categories: []string{"convergence"}, Namespaced: true,
	Virtual: true, JSON: true, Storage: GroupVersion.Group + "/gaps", Verbs: readOnly,
	Columns: []resource.Column[*Gap]{
		{Name: "Object", Type: "string", Description: "The object that is not what it should be.",
			Cell: func(g *Gap) any { return g.Object.Short() }},
		resource.Col("Gap", "string", func(g *Gap) any { return g.Says }),
		resource.Col("For", "string", func(g *Gap) any { return resource.Since(g.Since) }),
		resource.Col("Because", "string", func(g *Gap) any { return clip(orElse(g.Because, g.Cause), 160) }),
		resource.Col("Owner", "string", func(g *Gap) any { return g.Owner }),
		resource.Col("State", "string", func(g *Gap) any { return g.State }),
		resource.Wide("Next", "string", func(g *Gap) any { return clip(g.Next.Who+" "+g.Next.What, 120) }),
		wideName(func(g *Gap) string { return g.Name }),
	},
	Select: []resource.Field[*Gap]{
		{Label: "object.kind", Value: func(g *Gap) string { return g.Object.Kind }},
		{Label: "object.name", Value: func(g *Gap) string { return g.Object.Name }},
		{Label: "cause", Value: func(g *Gap) string { return g.Cause }},
		{Label: "state", Value: func(g *Gap) string { return g.State }},
		{Label: "owner", Value: func(g *Gap) string { return g.Owner }},
	},
}

// Loops declares the kind.
var Loops = &resource.Def[*Loop]{
	GVK: GroupVersion.WithKind("Loop"), Plural: "loops", Categories: []string{"convergence"},
	Virtual: true, JSON: true, Storage: GroupVersion.Group + "/loops", Verbs: readOnly,
	Columns: []resource.Column[*Loop]{
		resource.Col("Depth", "integer", func(l *Loop) any { return l.Depth }),
		resource.Col("Oldest", "string", func(l *Loop) any { return l.Oldest }),
		resource.Col("Running", "integer", func(l *Loop) any { return l.Running }),
		resource.Col("Failing", "integer", func(l *Loop) any { return l.Failing }),
		resource.Col("Rate", "string", func(l *Loop) any { return l.Rate }),
		resource.Col("P99", "string", func(l *Loop) any { return l.P99 }),
		resource.Col("Last Success", "string", func(l *Loop) any {
			if l.LastSuccess == nil {
				return "never"
			}
			return resource.Since(*l.LastSuccess)
		}),
		resource.Col("Last Error", "string", func(l *Loop) any {
			if l.LastError == nil {
				return ""
			}
			return clip(l.LastError.Message, 80)
		}),
		resource.Wide("Waiting", "integer", func(l *Loop) any { return l.Waiting }),
		resource.Wide("Done", "integer", func(l *Loop) any { return l.Done }),
		resource.Wide("Failed", "integer", func(l *Loop) any { return l.Failed }),
		resource.Wide("Replicas", "integer", func(l *Loop) any { return l.Replicas }),
		resource.Wide("Leader", "string", func(l *Loop) any { return l.Leader }),
		resource.Wide("Lease", "string", func(l *Loop) any { return l.Lease }),
	},
}

// Fights declares the kind.
var Fights = &resource.Def[*Fight]{
	GVK: GroupVersion.WithKind("Fight"), Plural: "fights", Categories: []string{"convergence"}, Namespaced: true,
	Virtual: true, JSON: true, Storage: GroupVersion.Group + "/fights", Verbs: readOnly,
	Columns: []resource.Column[*Fight]{
		{Name: "Object", Type: "string", Description: "The object.", Cell: func(f *Fight) any { return f.Object.Short() }},
		resource.Col("Field", "string", func(f *Fight) any { return f.Field }),
		resource.Col("Managers", "string", func(f *Fight) any {
			if len(f.Managers) == 1 {
				return f.Managers[0] + " against itself"
			}
			return strings.Join(f.Managers, " against ")
		}),
		resource.Col("Values", "string", func(f *Fight) any { return clip(strings.Join(f.Values, " ⇄ "), 80) }),
		resource.Col("Turns", "integer", func(f *Fight) any { return f.Turns }),
		resource.Col("Rate", "string", func(f *Fight) any { return f.Rate }),
		resource.Col("Since", "string", func(f *Fight) any { return resource.Since(f.Since) }),
		wideName(func(f *Fight) string { return f.Name }),
	},
}

// Reports declares the kind.
var Reports = &resource.Def[*Report]{GVK: GroupVersion.WithKind("Report"), Plural: "reports", Virtual: true, JSON: true}

// All returns the kinds that can be read.
func All() []resource.Kind { return []resource.Kind{Gaps, Loops, Fights} }

// wideName shows the name, by which the row can be asked for, with -o wide only: the object says more.
func wideName[T resource.Object](name func(T) string) resource.Column[T] {
	return resource.Column[T]{Name: "Name", Type: "string", Format: "name", Priority: 1, Description: "Name of the row itself.",
		Cell: func(o T) any { return name(o) }}
}

// Short names the object the way people type it: deployment/web.
func (o Object) Short() string { return strings.TrimPrefix(strings.ToLower(o.Kind)+"/"+o.Name, "/") }

// NameOf is the name of the gap of an object of the resource ("deployments.apps").
func NameOf(gr schema.GroupResource, name string) string { return gr.String() + ":" + name }

// ParseName takes the name of a gap apart.
func ParseName(gap string) (gr schema.GroupResource, name string, err error) {
	res, name, ok := strings.Cut(gap, ":")
	if !ok || res == "" || name == "" {
		return gr, "", fmt.Errorf("%q names no gap: RESOURCE[.GROUP]:NAME does, as deployments.apps:web", gap)
	}
	return schema.ParseGroupResource(res), name, nil
}

// clip bounds a cell; what it cuts off stands in the object.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

package converge_test

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/resource"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec: {group: example.com, names: {plural: widgets, kind: Widget}, versions: [{name: v1, subresources: {status: {}}}]}
status: {conditions: [{type: Established, status: "True"}]}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: two}
status: {phase: Ready}
`

// TestUntold asks about an object whose status nobody wrote: from outside it is not said to be what it should be. Who sees the callers
// knows better, and of a kind without a status there is nothing to say.
func TestUntold(t *testing.T) {
	for _, tt := range []struct {
		name, text, ask string
		callers         *converge.Callers
		says            string
	}{
		{"no status", widgets, "one", nil,
			"has a status that nobody has written yet, though 1 of 2 widgets have one, so whether it is what it should be is not known"},
		{"a status", widgets, "two", nil, ""},
		{"asked of the server itself", widgets, "one", &converge.Callers{}, ""},
		{"a kind without a status", strings.Replace(widgets, "status: {}", "", 1), "one", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := worldOf(t, tt.text)
			w.Callers = tt.callers
			k, obj := customOf(t, w, tt.ask)
			g := w.Rest(k, obj)
			switch {
			case g == nil && tt.says != "":
				t.Error("nothing is said")
			case g != nil && (tt.says == "" || !strings.Contains(g.Verdict, tt.says) || g.State != converge.Resting):
				t.Errorf("%s: %s", g.State, g.Verdict)
			}
			if list, _ := gaps.List(w, ""); tt.callers == nil && len(list) > 0 {
				t.Errorf("it is listed: %v", list[0].Verdict)
			}
		})
	}
}

func customOf(t *testing.T, w *converge.World, name string) (resource.Kind, resource.Object) {
	t.Helper()
	for _, k := range w.Kinds.All() {
		if k.Info().GR().String() == "widgets.example.com" {
			if obj := w.Read.Lookup(k, "a", name); obj != nil {
				return k, obj
			}
		}
	}
	t.Fatal("no such object")
	return nil, nil
}

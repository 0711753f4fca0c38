package converge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// TestTold holds what is said of the states of testdata/told.yaml and asked.yaml to what is expected.
func TestTold(t *testing.T) {
	rows, err := states.Rows("testdata")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.Name] {
			t.Errorf("two rows are named %s", r.Name)
		}
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) { checkTold(t, &r) })
	}
}

func checkTold(t *testing.T, r *states.Row) {
	w := worldOf(t, r.Given)
	if r.Server != nil {
		w.Loops = &converge.Processes{Own: func() *convergence.Server { return r.Server }}
	}
	k, obj, err := r.Asked(w.Kinds, w.Read)
	if err != nil {
		t.Fatal(err)
	}
	s := w.Explain(k, obj)
	rest, got, advice := w.Rest(k, obj), "", []string(nil)
	if rest != nil && rest.Cause == "AtRest" {
		got, advice = rest.Because, rest.Advice
	}
	if r.Rests == "" && r.Cause == "" && got != "" || !strings.Contains(got, r.Rests) {
		t.Errorf("it rests: %q, want %q", got, r.Rests)
	}
	for _, a := range r.Advice {
		if r.Cause == "" && !strings.Contains(strings.Join(advice, "\n"), a) {
			t.Errorf("the advice %q lacks %q", advice, a)
		}
	}
	if s == nil || r.Cause == "" {
		if s != nil || r.Cause != "" {
			t.Fatalf("told %+v, want cause %q", s, r.Cause)
		}
		return
	}
	g := s.Gap()
	for _, p := range [][3]string{{"cause", g.Cause, r.Cause}, {"owner", g.Owner, r.Owner}, {"state", g.State, r.State}} {
		if p[2] != "" && p[1] != p[2] {
			t.Errorf("%s is %q, want %q", p[0], p[1], p[2])
		}
	}
	if next := g.Next.Who + " " + g.Next.What; !strings.Contains(g.Verdict, r.Says) || !strings.Contains(next,
		r.Next) || r.Silent != "" && strings.Contains(g.Verdict+next, r.Silent) {
		t.Errorf("says %q, next %q", g.Verdict, next)
	}
	if !strings.Contains(g.Detail, r.Detail) {
		t.Errorf("the detail %q lacks %q", g.Detail, r.Detail)
	}
	for _, a := range r.Advice {
		if !strings.Contains(strings.Join(g.Advice, "\n"), a) {
			t.Errorf("the advice %q lacks %q", g.Advice, a)
		}
	}
	if t.Failed() {
		text, _ := json.Marshal(g)
		t.Logf("%s", text)
	}
}

// worldOf is a world of the objects of a text, at noon.
func worldOf(t *testing.T, text string) *converge.World {
	t.Helper()
	set, read, err := states.World(text)
	if err != nil {
		t.Fatal(err)
	}
	return &converge.World{Read: read, Kinds: set, Now: states.Noon, Rules: rules.All()}
}

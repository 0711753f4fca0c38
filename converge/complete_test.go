package converge_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// nameless finds a command that would need a name, or at least to say that it is of all, and has none.
var nameless = regexp.MustCompile(`^kubectl (?:delete|edit|patch|scale|annotate|label|set [a-z]+) [a-z]+(?:\.[a-z0-9.-]+)?(?:$| -)`)

// TestAdviceHasACommand wants a command that can be pasted in what is advised for each state, or the reason why none can help.
func TestAdviceHasACommand(t *testing.T) {
	rows, err := states.Rows("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		w := worldOf(t, r.Given)
		if r.Server != nil {
			w.Loops = &converge.Processes{Own: func() *convergence.Server { return r.Server }}
		}
		k, obj, err := r.Asked(w.Kinds, w.Read)
		if err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		g := w.Rest(k, obj)
		if s := w.Explain(k, obj); s != nil {
			g = s.Gap()
		}
		switch {
		case g == nil:
		case (len(g.Commands) == 0) == (g.NoCommand == ""):
			t.Errorf("%s: %s: the advice %q has the commands %q, and the reason to have none is %q", r.Name, g.Cause, g.Advice, g.Commands,
				g.NoCommand)
		}
		for i := 0; g != nil && i < len(g.Commands); i++ {
			if nameless.MatchString(g.Commands[i]) && !strings.Contains(g.Commands[i], " -l ") {
				t.Errorf("%s: of what: %s", r.Name, g.Commands[i])
			}
		}
	}
}

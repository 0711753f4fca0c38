package why_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/survey"
)

// agreed is for how many of the situations reading the objects alone, as on any Kubernetes, must come to the cause that the server itself
// comes to, which also knows its loops, and who watches and who is refused.
const agreed = 0.88

// surveys reads every world as a stranger does and holds what that says of the situations to what the server says.
func surveys(t *testing.T, in map[string]*world, list []situation) {
	told, same := 0, 0
	for name, w := range in {
		s := surveyOf(t, w.cfg)
		for _, sit := range list {
			if sit.World != name || sit.State == "" {
				continue
			}
			told++
			cause, verdict := explained(w.with(t), s.World, sit)
			for _, claim := range []string{"is not connected", "no controller watches", "no controller outside", "does not run here"} {
				if strings.Contains(verdict, claim) {
					t.Errorf("%s: %q: nobody can know that from outside", sit.Name, verdict)
				}
			}
			if cause == sit.Cause {
				same++
			} else {
				t.Logf("%s: %s, and from outside %s: %s", sit.Name, sit.Cause, cause, verdict)
			}
		}
	}
	t.Logf("%d of %d causes are the same from outside", same, told)
	if float64(same) < agreed*float64(told) {
		t.Errorf("only %d of %d causes are the same from outside", same, told)
	}
}

func surveyOf(t *testing.T, cfg *rest.Config) *survey.Survey {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	raw, err := client.Raw(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := survey.Read(t.Context(), raw, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range s.Unseen {
		t.Logf("not seen: %s", u)
	}
	return s
}

// explained is the cause and the verdict that a world has for the object of a situation.
func explained(w *world, from *converge.World, s situation) (cause, verdict string) {
	gr, name, err := convergence.ParseName(s.Ask)
	if err != nil {
		w.fatal("%v", err)
	}
	k, ok := from.Kinds.GR(schema.GroupResource{Group: gr.Group, Resource: gr.Resource})
	if !ok {
		return "(no such kind)", ""
	}
	ns := s.Name
	if !k.Info().Namespaced {
		ns = ""
	}
	obj := from.Read.Lookup(k, ns, name)
	if obj == nil {
		return "(not there)", ""
	}
	step := from.Explain(k, obj)
	if step == nil {
		return "(none)", ""
	}
	g := step.Gap()
	return g.Cause, g.Verdict
}

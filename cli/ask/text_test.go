package ask

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

func TestScreenTellsWhyNoCommandHelps(t *testing.T) {
	g := &convergence.Gap{Object: convergence.Object{Kind: "Pod", Name: "p"}, Verdict: "pod/p does not run",
		NoCommand: "it is done on node n itself"}
	g.Advise([]string{"install it on the node"})
	text := (&Asker{}).screen(g, nil, "")
	if !strings.Contains(text, "you can  install it on the node\n  by hand  it is done on node n itself\n") {
		t.Error(text)
	}
	g.Advise([]string{"correct it: kubectl edit pod p -n a"})
	if text = (&Asker{}).screen(g, nil, ""); strings.Contains(text, "by hand") {
		t.Error(text)
	}
}

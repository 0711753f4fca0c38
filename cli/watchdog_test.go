package cli

import (
	"testing"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// A server that serves answers itself, also where strangers may not ask; one that has ended does not.
func TestAnswers(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), Store: cluster.StoreMemory, Node: cluster.NodeNone, NoLoops: true,
		Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	well := serves(c)
	if err := well(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := well(t.Context()); err == nil {
		t.Error("a server that has ended answers")
	}
}

package gaps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/states"
)

// TestAlike lists pods whose controller is not there: those that are in one situation stand in one row.
func TestAlike(t *testing.T) {
	text := ""
	for i, reason := range []string{"ImagePullBackOff", "CrashLoopBackOff", "ImagePullBackOff", "ImagePullBackOff"} {
		text += fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: p%d, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]}
spec: {nodeName: node-1, containers: [{name: app, image: x}]}
status: {phase: Running, containerStatuses: [{name: app, image: x, restartCount: 3, state: {waiting: {reason: %s}},
  lastState: {terminated: {exitCode: 1}}}]}
---
`, i, reason)
	}
	set, read, err := states.World(strings.TrimSuffix(text, "---\n"))
	if err != nil {
		t.Fatal(err)
	}
	list, more := List(&converge.World{Read: read, Kinds: set, Now: states.Noon, Rules: rules.All()}, "")
	if len(list) != 2 || more {
		t.Fatalf("%d rows, more: %t", len(list), more)
	}
	others := map[string]int32{}
	for _, g := range list {
		if others[g.Cause] = g.Others; g.Others > 0 != strings.HasSuffix(g.Verdict, " (and 2 more like it)") {
			t.Errorf("%d others: %s", g.Others, g.Verdict)
		}
	}
	if others["ImagePull"] != 2 || others["CrashLoop"] != 0 {
		t.Errorf("others: %v", others)
	}
}

//go:build e2e

package e2e

import (
	"syscall"
	"testing"
)

// TestCleanRestart stops kloop politely while containers run, its containerd with it, and starts it again: the
// containers must not have noticed.
func TestCleanRestart(t *testing.T) {
	ns := space(t)
	apply(t, ns, web("web", 3, ""))
	rolledOut(t, ns, "web")
	before := pods(t, ns, "web")
	if err := end(it.server, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := it.startServer(); err != nil {
		t.Fatal(err)
	}
	rolledOut(t, ns, "web")
	for _, p := range before {
		for _, q := range pods(t, ns, "web") {
			if q.Name == p.Name && (q.UID != p.UID || q.Status.ContainerStatuses[0].ContainerID != p.Status.ContainerStatuses[0].ContainerID) {
				t.Errorf("pod %s was touched", p.Name)
			}
		}
	}
	if after := pods(t, ns, "web"); len(after) != len(before) {
		t.Errorf("%d pods before, %d after", len(before), len(after))
	}
}

//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// count is how many lines a text has.
func count(text string) int {
	return len(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }))
}

const talkers = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
spec:
  replicas: 2
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}, annotations: {kubectl.kubernetes.io/default-container: two}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: one, image: "nginx:1", command: [sh, -c, "for i in $(seq 10); do echo one $i; done; sleep 3600"]}
      - {name: two, image: "nginx:1", command: [sh, -c, "for i in $(seq 20); do echo two $i; done; sleep 3600"]}
`

// TestLogsOfMany: logs of several containers and of all pods of a Deployment, of the container that is the default, and parts of them.
func TestLogsOfMany(t *testing.T) {
	ns := space(t)
	apply(t, ns, talkers)
	rolledOut(t, ns, "many")
	list := pods(t, ns, "many")
	for _, p := range list {
		logged(t, ns, p.Name, "one 10", "-c", "one")
		logged(t, ns, p.Name, "two 20", "-c", "two")
	}
	log := func(args ...string) string { return kubectl(t, append([]string{"logs", "-n", ns}, args...)...) }
	first := list[0].Name
	for _, tt := range []struct {
		args string
		want int
	}{{"-c one", 10}, {"--all-containers", 30}, {"", 20}, {"-c one --tail=3", 3}, {"-c one --since=24h", 10}} {
		if got := log(append(strings.Fields(tt.args), first)...); count(got) != tt.want {
			t.Errorf("logs %s: %d lines, want %d:\n%s", tt.args, count(got), tt.want, got)
		}
	}
	if got := log("--limit-bytes=1", first); got != "t" {
		t.Errorf("one byte is %q", got)
	}
	eventually(t, "nothing was said in the last second", func() (bool, string) {
		got := log("--since=1s", first)
		return got == "", got
	})
	some, all := log("deploy/many", "--all-pods"), log("deploy/many", "--all-pods", "--all-containers")
	if count(some) != 40 || count(all) != 60 {
		t.Errorf("%d and %d lines of all pods:\n%s\n%s", count(some), count(all), some, all)
	}
	for _, p := range list {
		one, two := "[pod/"+p.Name+"/one] one 10", "[pod/"+p.Name+"/two] two 20"
		if strings.Contains(some, one) || !strings.Contains(some, two) || !strings.Contains(all, one) || !strings.Contains(all, two) {
			t.Errorf("of %s:\n%s\n%s", p.Name, some, all)
		}
	}
	waysToExec(t, ns, first)
}

package plan

import (
	"fmt"
	"testing"

	"github.com/kloop-dev/kloop/internal/states"
)

// A cron job whose jobs get stuck makes more of them while a plan looks ahead: they are no gaps of the change.
func TestFoldRuns(t *testing.T) {
	job := func(name, owner string) string {
		return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s, ownerReferences: [%s]}\n", name, owner)
	}
	of := "{apiVersion: batch/v1, kind: CronJob, name: c, uid: u, controller: true}"
	_, read, err := states.World(job("c-2", of) + "---\n" + job("c-1", of) + "---\n" + job("c-3", of) + "---\n" + job("alone", ""))
	if err != nil {
		t.Fatal(err)
	}
	gaps := map[Object]Gap{}
	for _, name := range []string{"c-1", "c-2", "c-3", "alone"} {
		o := Object{"Job", states.Namespace, name}
		gaps[o] = Gap{Object: o, Verdict: name}
	}
	foldRuns(read, gaps)
	c, alone := Object{"CronJob", states.Namespace, "c"}, Object{"Job", states.Namespace, "alone"}
	if len(gaps) != 2 || gaps[c].Verdict != "c-1" || gaps[c].Object != c || gaps[alone].Verdict != "alone" {
		t.Errorf("left are %v", gaps)
	}
	fresh, still, _ := compareGaps(map[Object]Gap{c: {Object: c, Verdict: "c-0"}}, gaps)
	if len(fresh) != 1 || fresh[0].Object != alone || len(still) != 1 {
		t.Errorf("fresh %v, still %v", fresh, still)
	}
}

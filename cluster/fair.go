package cluster

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/server/fair"
)

// fair shares the server among its callers, as FlowSchemas and PriorityLevelConfigurations say.
func (d *frontDoor) fair() *fair.Fair {
	reads, writes := d.c.cfg.MaxReads, d.c.cfg.MaxWrites
	if reads == 0 {
		reads = 400
	}
	if writes == 0 {
		writes = 200
	}
	return fair.New(fair.Config{Seats: reads + writes, Read: d.read})
}

// fewObjects are no more work than one, so that nobody need count them.
const fewObjects = 100

// count is about how many objects a list of the resource shows, and enough when it shows more.
func (d *frontDoor) count(gvr schema.GroupVersionResource, namespace string, enough int) int {
	k, _, ok := d.set.Resource(gvr)
	if !ok || k.Info().Virtual {
		return 0
	}
	snap := d.view.Snapshot()
	if all := snap.Count(k, ""); all <= fewObjects || namespace == "" { // known without looking
		return all
	}
	return snap.CountTo(k, namespace, enough)
}

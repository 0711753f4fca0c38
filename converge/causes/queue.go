package causes

import (
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// Queued has the words of Kueue about the Workload that it made for an object, as long as that may not run, and what helps, if that is
// known; "": there are none.
func Queued(w *converge.World, obj resource.Object) (told, advice string) {
	k := general.KindNamed(w, "kueue.x-k8s.io", "Workload")
	if k == nil {
		return "", ""
	}
	for load := range w.Read.ByOwner(k, string(obj.GetUID())) {
		if tree, ok := words.Tree(load); ok {
			told = words.OneLine(words.ComplaintIn(tree).Message)
			return told, general.QueueQuota(&converge.Look{World: w, Kind: k, Obj: load}, told)
		}
	}
	return "", ""
}

package causes

import (
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// Queued has the words of Kueue about the Workload that it made for an object, as long as that may not run; "": there are none.
func Queued(w *converge.World, obj resource.Object) string {
	k := general.KindNamed(w, "kueue.x-k8s.io", "Workload")
	if k == nil {
		return ""
	}
	for load := range w.Read.ByOwner(k, string(obj.GetUID())) {
		if tree, ok := words.Tree(load); ok {
			return words.OneLine(words.ComplaintIn(tree).Message)
		}
	}
	return ""
}

package converge

import (
	"github.com/kloop-dev/kloop/resource"
)

// queued has the words of Kueue about the Workload that it made for an object, as long as that may not run; "": there are none.
func queued(w *World, obj resource.Object) string {
	k := kindNamed(w, "kueue.x-k8s.io", "Workload")
	if k == nil {
		return ""
	}
	for load := range w.Read.ByOwner(k, string(obj.GetUID())) {
		if tree, ok := content(load); ok {
			return oneLine(complaintIn(tree).message)
		}
	}
	return ""
}

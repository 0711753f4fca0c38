package causes

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// enlarge advises, for a program that finds its disk full, to double the claim of its pod, if there is one and its class lets volumes grow.
func enlarge(l *converge.Look, f *converge.Finding, p *corev1.Pod) {
	names := core.ClaimNames(p)
	if len(names) != 1 || len(f.Advice) == 0 || f.Advice[0] != words.DiskFull {
		return
	}
	c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, names[0])
	if c == nil {
		return
	}
	has := c.Status.Capacity[corev1.ResourceStorage]
	f.Says += "; its claim " + c.Name + " has " + has.String()
	if asks := c.Spec.Resources.Requests[corev1.ResourceStorage]; asks.Cmp(has) > 0 {
		f.Says += ", and is to grow to " + asks.String()
		f.Below = []converge.Ref{converge.RefTo(kinds.PersistentVolumeClaims, c)}
		return
	}
	class := health.ClassOf(l.World, c)
	if class != nil && !ptr.Deref(class.AllowVolumeExpansion, false) {
		f.Says += ", and the class " + class.Name + " does not let volumes grow"
		f.Advice[0] = "let them, if its driver can make them, then enlarge the claim: kubectl patch storageclass " + class.Name +
			` -p '{"allowVolumeExpansion":true}'`
		return
	}
	twice := has.DeepCopy()
	twice.Add(has)
	f.Advice[0] = "enlarge the claim, or make room on its volume: kubectl patch pvc " + c.Name + " -n " + c.Namespace +
		` -p '{"spec":{"resources":{"requests":{"storage":"` + twice.String() + `"}}}}'`
}

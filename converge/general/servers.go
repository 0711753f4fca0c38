package general

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/resource"
)

// Leases are the ways in which an election is stuck. They are explained when somebody asks for one: the cache leaves leases out.
func Leases() []converge.Situation {
	return []converge.Situation{{Name: "LeaseExpired", Of: []resource.Kind{coordination.Leases}, See: leaseExpired}}
}

// leaseExpired is a lease of an election past renewTime and leaseDurationSeconds that no other candidate took: none runs, or none may.
func leaseExpired(l *converge.Look) *converge.Finding {
	x := l.Obj.(*coordinationv1.Lease)
	holder := ptr.Deref(x.Spec.HolderIdentity, "")
	return &converge.Finding{Says: "was renewed last " + words.Ago(l.Now.Sub(x.Spec.RenewTime.Time)) + " ago by " + holder +
		", and nobody else has taken it", Owner: holder, State: converge.Missing, Waits: l.Field("spec.renewTime"),
		Next: converge.Does("another replica", "takes it: it is free for who stands for election"),
		Advice: []string{"look whether any replica of the controller runs: who takes part in the election takes an expired lease by itself",
			"if its replicas run and none takes it, look at their logs, and whether they may update leases in " + x.Namespace}}
}

// Servers are the wants as gaps of the server's Lease in kube-system, by which servers show that they live (KEP-1965).
func Servers() (list []converge.Situation) {
	for _, n := range Wants() {
		list = append(list, converge.Situation{Name: n.Cause, Of: []resource.Kind{coordination.Leases},
			See: func(l *converge.Look) *converge.Finding {
				if s := ServerOf(l.Loops, l.Obj.(*coordinationv1.Lease)); s != nil && n.Seen(s).Says != "" {
					return n.Why(s, l)
				}
				return nil
			}})
	}
	return list
}

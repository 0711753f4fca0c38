package converge

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// leases are the ways in which an election is stuck. They are explained when somebody asks for one: the cache leaves leases out.
func leases() []Situation {
	return []Situation{{"LeaseExpired", []resource.Kind{kinds.Leases}, leaseExpired}}
}

// leaseHealth finds a gap in a lease that is held and was not renewed in time, or in the server whose lease it is.
func leaseHealth(w *World, l *coordinationv1.Lease) Health {
	if s := w.Loops.server(l); s != nil {
		return serverHealth(s, l)
	}
	if ptr.Deref(l.Spec.HolderIdentity, "") == "" || l.Spec.RenewTime == nil || w.Now.Sub(l.Spec.RenewTime.Time) <= leaseLife(l) {
		return Health{}
	}
	return Health{Says: "is held by somebody who does not renew it", Want: "spec.renewTime within " + leaseLife(l).String(),
		Have:  "spec.renewTime=" + l.Spec.RenewTime.UTC().Format("2006-01-02T15:04:05Z"),
		Since: l.Spec.RenewTime.Add(leaseLife(l))}
}

// leaseExpired is a lease of an election past renewTime and leaseDurationSeconds that no other candidate took: none runs, or none may.
func leaseExpired(l *look) *Finding {
	x := l.obj.(*coordinationv1.Lease)
	holder := ptr.Deref(x.Spec.HolderIdentity, "")
	return &Finding{Says: "was renewed last " + ago(l.Now.Sub(x.Spec.RenewTime.Time)) + " ago by " + holder +
		", and nobody else has taken it", Owner: holder, State: Missing, Waits: on("Field", refTo(l.kind, x), "spec.renewTime"),
		Next: does("another replica", "takes it: it is free for who stands for election"),
		Advice: []string{"look whether any replica of the controller runs: who takes part in the election takes an expired lease by itself",
			"if its replicas run and none takes it, look at their logs, and whether they may update leases in " + x.Namespace}}
}

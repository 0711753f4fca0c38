package causes

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// servers are the wants as gaps of the server's Lease in kube-system, by which servers show that they live (KEP-1965).
func servers() (list []converge.Situation) {
	for _, n := range health.Wants() {
		list = append(list, converge.Situation{Name: n.Cause, Of: []resource.Kind{kinds.Leases},
			See: func(l *converge.Look) *converge.Finding {
				if s := health.ServerOf(l.Loops, l.Obj.(*coordinationv1.Lease)); s != nil && n.Seen(s).Says != "" {
					return n.Why(s, l)
				}
				return nil
			}})
	}
	return list
}

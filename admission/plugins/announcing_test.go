package plugins

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// TestNodesAnnounce: an agent takes the Leases of addresses for which it is a candidate, and lets go of its own; no more.
func TestNodesAnnounce(t *testing.T) {
	lease := func(holder, candidates string, edit ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, Name: "l2-192.0.2.1",
			Labels:      map[string]string{wellknown.AnnounceLabel: "layer2"},
			Annotations: map[string]string{wellknown.AnnouncedAddress: "192.0.2.1", wellknown.AnnouncedCandidates: candidates}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		for _, f := range edit {
			f(l)
		}
		return l
	}
	const both, others = `[{"node":"n","address":"10.0.0.1"},{"node":"m","address":"10.0.0.2"}]`, `[{"node":"m","address":"10.0.0.2"}]`
	const mine = `[{"node":"n","address":""}]`
	said := func(l *coordinationv1.Lease) { l.Annotations[wellknown.BGPSessions] = "{}" }
	note := func(l *coordinationv1.Lease) { l.Annotations[wellknown.AnnouncedTrouble] = "x" }
	bare := func(l *coordinationv1.Lease) { l.Annotations = nil }
	alone := func(l *coordinationv1.Lease) { l.Annotations = map[string]string{wellknown.AnnouncedTrouble: "x"} }
	for _, tt := range []struct {
		name      string
		old, next *coordinationv1.Lease
		refused   string
	}{
		{"take a free one", lease("", both), lease("n", both), ""},
		{"take one over", lease("m", both), lease("n", both), ""},
		{"take what others may have", lease("", others), lease("n", others), "only take an address for which it is a candidate"},
		{"let go", lease("n", others), lease("", others), ""},
		{"let go of another's", lease("m", both), lease("", both), "let go of its own"},
		{"give to another", lease("n", both), lease("m", both), "only take an address"},
		{"note trouble", lease("n", both), lease("n", both, note), ""},
		{"note trouble where there is no annotation", lease("n", both, bare), lease("n", both, alone), ""},
		{"take a note away", lease("n", both, note), lease("n", both), ""},
		{"note trouble at another's address", lease("m", others), lease("m", others, note), "let go of its own"},
		{"say how BGP sessions are", lease("", mine), lease("", mine, said), ""},
		{"say it of another node", lease("", others), lease("", others, said), "only take an address for which it is a candidate"},
		{"change the plan", lease("", mine), lease("", mine, func(l *coordinationv1.Lease) { l.Annotations[wellknown.BGPPlanned] = "{}" }),
			"only change the holder"},
		{"change the candidates", lease("n", both), lease("n", `[{"node":"n","address":"10.0.0.1"}]`), "only change the holder"},
		{"no candidate can be read", lease("", "nonsense"), lease("n", "nonsense"), "only take an address"},
		{"another kind of lease", lease("", both, func(l *coordinationv1.Lease) { l.Labels = nil }), lease("n", both),
			"leases that announce addresses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &admission.Request{Op: admission.Update, Kind: coordination.Leases, Namespace: wellknown.AnnounceSpace, Name: tt.next.Name,
				Old: tt.old, Object: tt.next,
				User: &auth.User{Name: "system:node:n", Groups: []string{auth.GroupNodes}}}
			err := nodeLeases(r, "n")
			if tt.refused == "" && err != nil {
				t.Error(err)
			} else if tt.refused != "" {
				refused(t, err, metav1.StatusReasonForbidden, tt.refused)
			}
		})
	}
	r := &admission.Request{Op: admission.Create, Kind: coordination.Leases, Namespace: wellknown.AnnounceSpace, Object: lease("n", both)}
	refused(t, nodeLeases(r, "n"), metav1.StatusReasonForbidden, "can only access leases in")
}

package loadbalancer

import (
	"log/slog"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loadbalancer/bgp"
	"github.com/kloop-dev/kloop/resource"
)

// TestLastWord: a speaker that ends says so although the Lease was written after it last saw it.
func TestLastWord(t *testing.T) {
	api := newAPI(t)
	obj, err := api.Create(t.Context(), kinds.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: wellknown.AnnounceSpace, Name: wellknown.BGPLease("n1"), Annotations: map[string]string{wellknown.BGPPlanned: "{}"}}})
	if err != nil {
		t.Fatal(err)
	}
	seen := resource.As[*coordinationv1.Lease](obj)
	later := resource.Clone(seen)
	later.Annotations[wellknown.BGPPlanned] = `{"peers":[]}`
	if _, err := api.Update(t.Context(), kinds.Leases, later, ""); err != nil {
		t.Fatal(err)
	}
	s := &speaking{cfg: Config{Client: api, Node: "n1", Log: slog.New(slog.DiscardHandler)}, lease: seen,
		names: map[string]bool{"tor": true}, speaker: bgp.NewSpeaker(bgp.Own{}, func(bgp.Peer, bgp.State) {})}
	s.leave()
	obj, err = api.Get(t.Context(), kinds.Leases, wellknown.AnnounceSpace, wellknown.BGPLease("n1"))
	if err != nil {
		t.Fatal(err)
	}
	got := resource.As[*coordinationv1.Lease](obj).Annotations
	if !strings.Contains(got[wellknown.BGPSessions], "agent has stopped") || got[wellknown.BGPPlanned] != `{"peers":[]}` {
		t.Errorf("the Lease says %v", got)
	}
}

package devices_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// holds allows what it lists: verb, subresource, namespace and name.
type holds []string

func (h holds) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if slices.Contains(h, strings.Join([]string{a.Verb, a.Resource + "/" + a.Subresource, a.Namespace, a.Name}, " ")) {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

// TestStatusRights has callers with few rights allocate a claim, and tell of a device.
func TestStatusRights(t *testing.T) {
	var (
		binder     = "update resourceclaims/binding  "
		driver     = "arbitrary-node:update resourceclaims/driver ns d.example"
		driverHere = "associated-node:update resourceclaims/driver ns d.example"
		agent      = &auth.User{Name: "system:serviceaccount:ns:d", Extra: map[string][]string{token.ExtraNodeName: {"n1"}}}
		elsewhere  = &auth.User{Name: "system:serviceaccount:ns:d", Extra: map[string][]string{token.ExtraNodeName: {"n2"}}}
		person     = &auth.User{Name: "jo"}
		noBinding  = `changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: ` +
			`resourceclaims.resource.k8s.io is forbidden: User "jo" cannot update ` +
			`resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope`
		noDriver = `changing status.devices requires resource="resourceclaims/driver", ` +
			`verb="[associated-node:update arbitrary-node:update]" permission: ` +
			`resourceclaims.resource.k8s.io "d.example" is forbidden: User "system:serviceaccount:ns:d" cannot associated-node:update ` +
			`resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "ns"`
	)
	allocate := func(c *resourcev1.ResourceClaim) { c.Status.Allocation = allocation() }
	reserve := func(c *resourcev1.ResourceClaim) {
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
	}
	tell := func(c *resourcev1.ResourceClaim) { c.Status.Devices = told() }
	forget := func(c *resourcev1.ResourceClaim) { c.Status.Devices = nil }
	for _, tt := range []struct {
		name   string
		who    *auth.User
		rights holds
		from   func(c *resourcev1.ResourceClaim) // beside the allocation
		edit   func(c *resourcev1.ResourceClaim)
		want   string
	}{
		{"allocate", person, holds{binder}, nil, allocate, ""},
		{"allocate without the right", person, holds{driver}, nil, allocate, noBinding},
		{"reserve without the right", person, nil, allocate, reserve, noBinding},
		{"free without the right", person, nil, allocate, func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }, noBinding},
		{"tell", person, holds{driver}, allocate, tell, ""},
		{"tell from the device's node", agent, holds{driverHere}, allocate, tell, ""},
		{"tell from another node", elsewhere, holds{driverHere}, allocate, tell, `verb="[arbitrary-node:update]"`},
		{"tell without the right", agent, holds{binder}, allocate, tell, noDriver},
		{"take back without the right", agent, nil, func(c *resourcev1.ResourceClaim) { allocate(c); tell(c) }, forget, noDriver},
		{"nothing new", person, nil, func(c *resourcev1.ResourceClaim) { allocate(c); tell(c) }, func(*resourcev1.ResourceClaim) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, off := range []bool{false, true} {
				w, claim := start(t, tt.rights, off, tt.from)
				next := resource.Clone(claim)
				tt.edit(next)
				_, _, err := w.Server.Update(t.Context(), &server.Request{User: tt.who, Kind: kinds.ResourceClaims,
					GVK:       kinds.ResourceClaims.Info().GVK,
					Namespace: "ns", Name: "c", Sub: "status"}, next)
				switch {
				case (tt.want == "" || off) && err != nil:
					t.Errorf("%s, off %t: %v", tt.name, off, err)
				case tt.want != "" && !off && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
				}
			}
		})
	}
}

func allocation() *resourcev1.AllocationResult {
	return &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "r", Driver: "d.example", Pool: "p", Device: "x"}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}}}
}

func told() []resourcev1.AllocatedDeviceStatus {
	return []resourcev1.AllocatedDeviceStatus{{Driver: "d.example", Pool: "p", Device: "x", Conditions: []metav1.Condition{{Type: "Ready",
		Status: metav1.ConditionTrue, Reason: "r", LastTransitionTime: metav1.Now()}}}}
}

// start returns a server and a claim in it, as from makes it.
func start(t *testing.T, rights holds, off bool, from func(*resourcev1.ResourceClaim)) (*testcluster.Cluster, *resourcev1.ResourceClaim) {
	t.Helper()
	set, err := features.New(features.Newest, map[string]bool{"DRAResourceClaimGranularStatusAuthorization": !off})
	if err != nil {
		t.Fatal(err)
	}
	w := testcluster.Start(t, func(c *testcluster.Config) { c.Kinds = kinds.SetFor(set, nil) })
	put := func(k resource.Kind, obj resource.Object) resource.Object {
		got, err := w.Create(t.Context(), k, obj)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	put(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	claim := resource.Clone(put(kinds.ResourceClaims, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "k"}}}}}}).(*resourcev1.ResourceClaim))
	if from != nil {
		from(claim)
		got, err := w.Update(t.Context(), kinds.ResourceClaims, claim, "status")
		if err != nil {
			t.Fatal(err)
		}
		claim = got.(*resourcev1.ResourceClaim)
	}
	w.Server.Authorize = rights
	return w, claim
}

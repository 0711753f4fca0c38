package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/token"
	"github.com/kloop-dev/kloop/server"
)

// mayTell asks for the rights that the parts of a claim's status take beside that to write it: who allocates needs
// resourceclaims/binding, and a driver resourceclaims/driver, by its name. Both are names for rules alone; nothing is served there.
func (s extension) mayTell(ctx context.Context, r *server.Request, c, old *resourcev1.ResourceClaim) (errs field.ErrorList) {
	on := s.Kinds.Features()
	if s.Authorize == nil || r.Internal() || !on.On("DRAResourceClaimGranularStatusAuthorization") {
		return nil
	}
	verb := "update"
	if r.ByPatch() {
		verb = "patch"
	}
	path := field.NewPath("status")
	if !equality.Semantic.DeepEqual(c.Status.Allocation, old.Status.Allocation) ||
		!equality.Semantic.DeepEqual(c.Status.ReservedFor, old.Status.ReservedFor) {
		if err := s.may(ctx, right(r, verb, resourcev1.SubresourceBinding)); err != nil {
			errs = append(errs, field.Forbidden(path.Child("allocation"), fmt.Sprintf(
				"changing status.allocation or status.reservedFor requires resource=%q, verb=%q permission: %v", "resourceclaims/binding", verb, err)))
		}
	}
	if c.Status.Allocation == nil || !on.On("DRAResourceClaimDeviceStatus") { // what drivers said goes with the allocation
		return errs
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + verb}
	if besides(r.User, nodeOf(c.Status.Allocation)) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + verb, verbs[0]}
	}
	for _, driver := range heard(&c.Status, &old.Status) {
		if err := s.mayAny(ctx, r, verbs, driver); err != nil {
			errs = append(errs, field.Forbidden(path.Child("devices"), fmt.Sprintf(
				"changing status.devices requires resource=%q, verb=\"%s\" permission: %v", "resourceclaims/driver", verbs, err)))
		}
	}
	return errs
}

func right(r *server.Request, verb, sub string) *auth.Attributes {
	gvk := r.Spoken()
	return &auth.Attributes{User: r.User, Verb: verb, Group: gvk.Group, Version: gvk.Version, Resource: r.Kind.Info().Plural, Subresource: sub}
}

// mayAny is nil when the caller has one of the verbs for the driver's part, else the refusal of the first.
func (s extension) mayAny(ctx context.Context, r *server.Request, verbs []string, driver string) (first error) {
	for _, verb := range verbs {
		a := right(r, verb, resourcev1.SubresourceDriver)
		a.Namespace, a.Name = r.Namespace, driver
		err := s.may(ctx, a)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (s extension) may(ctx context.Context, a *auth.Attributes) error {
	d, reason, err := s.Authorize.Authorize(ctx, a)
	switch {
	case d == auth.Allow:
		return nil
	case err != nil && reason != "":
		reason = err.Error() + ": " + reason
	case err != nil:
		reason = err.Error()
	}
	return auth.Forbidden(a, reason)
}

// heard are the drivers that say something else now of a device, in order.
func heard(now, old *resourcev1.ResourceClaimStatus) []string {
	type device struct{ driver, pool, name, share string }
	of := func(d resourcev1.AllocatedDeviceStatus) device {
		id := device{d.Driver, d.Pool, d.Device, ""}
		if d.ShareID != nil {
			id.share = *d.ShareID
		}
		return id
	}
	was, drivers := map[device]resourcev1.AllocatedDeviceStatus{}, map[string]bool{}
	for _, d := range old.Devices {
		was[of(d)] = d
	}
	for _, d := range now.Devices {
		before, there := was[of(d)]
		if delete(was, of(d)); !there || !equality.Semantic.DeepEqual(before, d) {
			drivers[d.Driver] = true
		}
	}
	for id := range was {
		drivers[id.driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

// nodeOf is the one node whose devices were allocated; "": they are not of one node.
func nodeOf(a *resourcev1.AllocationResult) string {
	if a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	t := a.NodeSelector.NodeSelectorTerms[0]
	if len(t.MatchExpressions) != 0 || len(t.MatchFields) != 1 {
		return ""
	}
	if f := t.MatchFields[0]; f.Key == "metadata.name" && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
		return f.Values[0]
	}
	return ""
}

// besides says that the caller is a service account, by the token of a pod on that node.
func besides(u *auth.User, node string) bool {
	if node == "" || u == nil || len(validation.IsDNS1123Subdomain(node)) > 0 {
		return false
	}
	_, _, ok := auth.SplitServiceAccount(u.Name)
	names := u.Extra[token.ExtraNodeName]
	return ok && len(names) == 1 && names[0] == node
}

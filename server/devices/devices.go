// Package devices has what ResourceClaims (dynamic resource allocation, DRA) need of the front door: who may ask for admin access, and
// who may write which part of a status.
package devices

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// Extensions are for claims and their templates.
func Extensions(c *server.Core) (list []server.Extension) {
	for _, plural := range []string{"resourceclaims", "resourceclaimtemplates"} {
		list = append(list, server.Extension{Resource: resourcev1.Resource(plural), Validate: extension{c}.check})
	}
	return list
}

// check adds what only the front door knows before what the kind's own rules say.
func (s extension) check(ctx context.Context, r *server.Request, obj, old resource.Object, errs field.ErrorList) field.ErrorList {
	own := s.adminAccess(r, obj, old)
	if c, ok := obj.(*resourcev1.ResourceClaim); ok && r.Sub == "status" && old != nil {
		own = append(own, s.mayTell(ctx, r, c, old.(*resourcev1.ResourceClaim))...)
	}
	return append(own, errs...)
}

type extension struct{ *server.Core }

// adminAccess refuses claims on devices that others use, but in namespaces that an administrator labelled for it. What
// was granted stays: a claim's spec and its allocation do not change.
func (s extension) adminAccess(r *server.Request, obj, old resource.Object) field.ErrorList {
	path := asksForAccess(r.Sub, obj, old)
	if path == nil {
		return nil
	}
	k, ok := s.Kinds.GR(schema.GroupResource{Resource: "namespaces"})
	if !ok {
		return nil
	}
	if ns := s.View.Snapshot().Lookup(k, "", obj.GetNamespace()); ns != nil && ns.GetLabels()[resourcev1.DRAAdminNamespaceLabelKey] == "true" {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "admin access to devices requires the `"+resourcev1.DRAAdminNamespaceLabelKey+
		": true` label on the containing namespace")}
}

// asksForAccess returns the first place that asks for such access newly, or nil.
func asksForAccess(sub string, obj, old resource.Object) *field.Path {
	switch o := obj.(type) {
	case *resourcev1.ResourceClaim:
		if sub == "status" {
			return grantsAccess(o, old.(*resourcev1.ResourceClaim))
		}
		if old == nil {
			return requestsAccess(o.Spec.Devices.Requests)
		}
	case *resourcev1.ResourceClaimTemplate:
		if old == nil {
			return requestsAccess(o.Spec.Spec.Devices.Requests)
		}
	}
	return nil
}

// requestsAccess names the request without `exactly` in the path, and without the template around it: so does upstream.
func requestsAccess(list []resourcev1.DeviceRequest) *field.Path {
	for i, r := range list {
		if r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess {
			return field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess")
		}
	}
	return nil
}

func grantsAccess(c, old *resourcev1.ResourceClaim) *field.Path {
	if granted(old) >= 0 {
		return nil
	}
	if i := granted(c); i >= 0 {
		return field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
	}
	return nil
}

func granted(c *resourcev1.ResourceClaim) int {
	if c.Status.Allocation == nil {
		return -1
	}
	for i, r := range c.Status.Allocation.Devices.Results {
		if r.AdminAccess != nil && *r.AdminAccess {
			return i
		}
	}
	return -1
}

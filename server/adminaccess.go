package server

import (
	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// adminAccess refuses claims on devices that others use, but in namespaces that an administrator labelled for it. What
// was granted stays: a claim's spec and its allocation do not change.
func (s *Server) adminAccess(r *Request, obj, old resource.Object) field.ErrorList {
	path := asksForAccess(r.Sub, obj, old)
	if path == nil {
		return nil
	}
	k, ok := s.Kinds.GR(schema.GroupResource{Resource: "namespaces"})
	if !ok {
		return nil
	}
	if ns := s.View.Snapshot().Lookup(k, "", obj.GetNamespace()); ns != nil && ns.GetLabels()[v1.DRAAdminNamespaceLabelKey] == "true" {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "admin access to devices requires the `"+v1.DRAAdminNamespaceLabelKey+
		": true` label on the containing namespace")}
}

// asksForAccess returns the first place that asks for such access newly, or nil.
func asksForAccess(sub string, obj, old resource.Object) *field.Path {
	switch o := obj.(type) {
	case *v1.ResourceClaim:
		if sub == "status" {
			return grantsAccess(o, old.(*v1.ResourceClaim))
		}
		if old == nil {
			return requestsAccess(o.Spec.Devices.Requests)
		}
	case *v1.ResourceClaimTemplate:
		if old == nil {
			return requestsAccess(o.Spec.Spec.Devices.Requests)
		}
	}
	return nil
}

// requestsAccess names the request without `exactly` in the path, and without the template around it: so does upstream.
func requestsAccess(list []v1.DeviceRequest) *field.Path {
	for i, r := range list {
		if r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess {
			return field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess")
		}
	}
	return nil
}

func grantsAccess(c, old *v1.ResourceClaim) *field.Path {
	if granted(old) >= 0 {
		return nil
	}
	if i := granted(c); i >= 0 {
		return field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
	}
	return nil
}

func granted(c *v1.ResourceClaim) int {
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

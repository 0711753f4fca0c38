package dra

import (
	v1 "k8s.io/api/resource/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// validateClaimStatus lets a claim be allocated once and reserved while it is.
func validateClaimStatus(c, old *v1.ResourceClaim) (errs field.ErrorList) {
	s, was, path := &c.Status, &old.Status, field.NewPath("status")
	if s.Allocation != nil {
		if was.Allocation != nil {
			errs = append(errs, rule.FrozenJSON(s.Allocation, was.Allocation, path.Child("allocation"))...)
		} else {
			errs = append(errs, allocation(s.Allocation, c, path.Child("allocation"))...)
		}
	}
	reserved := path.Child("reservedFor")
	errs = append(errs, few(len(s.ReservedFor), v1.ResourceClaimReservedForMaxSize, reserved)...)
	seen, before := map[types.UID]bool{}, map[types.UID]bool{}
	for _, r := range was.ReservedFor {
		before[r.UID] = true
	}
	fresh := false
	for i, r := range s.ReservedFor {
		errs = append(errs, consumer(r, seen, reserved.Index(i))...)
		fresh = fresh || !before[r.UID]
	}
	if len(s.ReservedFor) > 0 && s.Allocation == nil {
		errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
	}
	if fresh && c.DeletionTimestamp != nil {
		errs = append(errs, field.Forbidden(reserved, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	return append(errs, devices(s.Devices, path.Child("devices"))...)
}

func consumer(r v1.ResourceClaimConsumerReference, seen map[types.UID]bool, at *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Needed(r.Resource, at.Child("resource"))...)
	errs = append(errs, rule.Needed(r.Name, at.Child("name"))...)
	errs = append(errs, rule.Needed(r.UID, at.Child("uid"))...)
	if seen[r.UID] {
		errs = append(errs, field.Duplicate(at, r.UID))
	}
	seen[r.UID] = true
	return errs
}

func allocation(a *v1.AllocationResult, c *v1.ResourceClaim, path *field.Path) (errs field.ErrorList) {
	names := map[string]bool{}
	for _, r := range c.Spec.Devices.Requests {
		names[r.Name] = true
		for _, f := range r.FirstAvailable {
			names[r.Name+"/"+f.Name] = true
		}
	}
	results := path.Child("devices", "results")
	errs = append(errs, few(len(a.Devices.Results), v1.AllocationResultsMaxSize, results)...)
	for i, r := range a.Devices.Results {
		at := results.Index(i)
		if !names[r.Request] {
			errs = append(errs, field.Invalid(at.Child("request"), r.Request, "must be the name of a request in the claim"))
		}
		errs = append(errs, driver(r.Driver, at.Child("driver"))...)
		errs = append(errs, rule.Needed(r.Pool, at.Child("pool"))...)
		errs = append(errs, rule.NeededFormat(r.Device, at.Child("device"), rule.Label)...)
	}
	for i, k := range a.Devices.Config {
		at := path.Child("devices", "config").Index(i)
		errs = append(errs, rule.Chosen(k.Source, at.Child("source"), v1.AllocationConfigSourceClass, v1.AllocationConfigSourceClaim)...)
		errs = append(errs, requestNames(k.Requests, names, at.Child("requests"))...)
		errs = append(errs, configuration(k.DeviceConfiguration, at)...)
	}
	return errs
}

func devices(list []v1.AllocatedDeviceStatus, path *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, d := range list {
		at, id := path.Index(i), d.Driver+"\x00"+d.Pool+"\x00"+d.Device
		if d.ShareID != nil {
			id += "\x00" + *d.ShareID
		}
		if seen[id] {
			errs = append(errs, field.Duplicate(at, d.Device))
		}
		seen[id] = true
		if len(d.Conditions) > v1.AllocatedDeviceStatusMaxConditions {
			errs = append(errs, field.TooMany(at.Child("conditions"), len(d.Conditions), v1.AllocatedDeviceStatusMaxConditions))
		}
		errs = append(errs, metavalidation.ValidateConditions(d.Conditions, at.Child("conditions"))...)
		if d.Data != nil && len(d.Data.Raw) > 0 {
			errs = append(errs, object(*d.Data, at.Child("data"))...)
		}
	}
	return errs
}

package dra

import (
	"regexp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// uuid is the form of an id of a share.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// validateClaimStatus lets a claim be allocated once and reserved while it is.
func validateClaimStatus(on *features.Set, c, old *resourcev1.ResourceClaim) (errs field.ErrorList) {
	s, was, path := &c.Status, &old.Status, field.NewPath("status")
	if s.Allocation != nil {
		if was.Allocation != nil {
			errs = append(errs, rule.FrozenJSON(s.Allocation, was.Allocation, path.Child("allocation"))...)
		} else {
			errs = append(errs, allocation(s.Allocation, c, path.Child("allocation"))...)
		}
	}
	reserved := path.Child("reservedFor")
	errs = append(errs, unlike(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, reserved,
		func(r resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID }, consumer)...)
	added := func(r resourcev1.ResourceClaimConsumerReference) bool { return !slices.Contains(was.ReservedFor, r) }
	switch {
	case len(s.ReservedFor) == 0:
	case s.Allocation == nil:
		errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
	case c.DeletionTimestamp != nil && slices.ContainsFunc(s.ReservedFor, added):
		errs = append(errs, field.Forbidden(reserved,
			"new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	return append(errs, devices(on, s, path.Child("devices"))...)
}

func consumer(r resourcev1.ResourceClaimConsumerReference, at *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Needed(r.Resource, at.Child("resource"))...)
	errs = append(errs, rule.Needed(r.Name, at.Child("name"))...)
	return append(errs, rule.Needed(r.UID, at.Child("uid"))...)
}

func allocation(a *resourcev1.AllocationResult, c *resourcev1.ResourceClaim, path *field.Path) field.ErrorList {
	names, at := known(&c.Spec.Devices), path.Child("devices")
	errs := each(a.Devices.Results, resourcev1.AllocationResultsMaxSize, at.Child("results"),
		func(r resourcev1.DeviceRequestAllocationResult, at *field.Path) field.ErrorList {
			return result(r, names, at)
		})
	errs = append(errs, each(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, at.Child("config"),
		func(k resourcev1.DeviceAllocationConfiguration, at *field.Path) field.ErrorList {
			errs := rule.Chosen(k.Source, at.Child("source"), resourcev1.AllocationConfigSourceClass, resourcev1.AllocationConfigSourceClaim)
			errs = append(errs, requestNames(k.Requests, names, at.Child("requests"))...)
			return append(errs, configuration(k.DeviceConfiguration, at)...)
		})...)
	if a.NodeSelector != nil {
		errs = append(errs, podspec.ValidateNodeSelector(a.NodeSelector, path.Child("nodeSelector"))...)
	}
	return errs
}

// result checks one device that was given to a claim.
func result(r resourcev1.DeviceRequestAllocationResult, names map[string]bool, at *field.Path) field.ErrorList {
	errs := requestName(r.Request, names, at.Child("request"))
	errs = append(errs, driver(r.Driver, at.Child("driver"))...)
	errs = append(errs, poolName(r.Pool, at.Child("pool"))...)
	errs = append(errs, rule.Format(r.Device, at.Child("device"), rule.Label)...)
	errs = append(errs, bindingConditions(r.BindingConditions, r.BindingFailureConditions, at)...)
	if r.ShareID != nil {
		errs = append(errs, shareID(string(*r.ShareID), at.Child("shareID"))...)
	}
	return errs
}

// deviceID identifies an allocated device, or a share of it.
func deviceID(driver, pool, device string, share *string) string {
	id := driver + "\x00" + pool + "\x00" + device
	if share != nil {
		id += "\x00" + *share
	}
	return id
}

// allocated are the devices that a claim has been given.
func allocated(s *resourcev1.ResourceClaimStatus) map[string]bool {
	set := map[string]bool{}
	if s.Allocation != nil {
		for _, r := range s.Allocation.Devices.Results {
			set[deviceID(r.Driver, r.Pool, r.Device, (*string)(r.ShareID))] = true
		}
	}
	return set
}

// forgetDevices drops what drivers told of devices that the claim no longer has.
func forgetDevices(c, old *resourcev1.ResourceClaim) {
	had, has := allocated(&old.Status), allocated(&c.Status)
	c.Status.Devices = rule.NoneIfEmpty(slices.DeleteFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		id := deviceID(d.Driver, d.Pool, d.Device, d.ShareID)
		return had[id] && !has[id]
	}))
	dropAlpha(c, old, false, dropFromClaimStatus)
}

func devices(on *features.Set, s *resourcev1.ResourceClaimStatus, path *field.Path) (errs field.ErrorList) {
	allocated, seen := allocated(s), map[string]bool{}
	for i, d := range s.Devices {
		at, id := path.Index(i), deviceID(d.Driver, d.Pool, d.Device, d.ShareID)
		if seen[id] {
			errs = append(errs, field.Duplicate(at, d.Device))
		}
		if !allocated[id] {
			errs = append(errs, field.Invalid(at, d.Device, "must be an allocated device in the claim"))
		}
		seen[id] = true
		errs = append(errs, deviceStatus(on, d, at)...)
	}
	return errs
}

func deviceStatus(on *features.Set, d resourcev1.AllocatedDeviceStatus, at *field.Path) (errs field.ErrorList) {
	errs = append(errs, driver(d.Driver, at.Child("driver"))...)
	errs = append(errs, poolName(d.Pool, at.Child("pool"))...)
	errs = append(errs, rule.Format(d.Device, at.Child("device"), rule.Label)...)
	if d.ShareID != nil {
		errs = append(errs, shareID(*d.ShareID, at.Child("shareID"))...)
	}
	if len(d.Conditions) > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(at.Child("conditions"), len(d.Conditions), resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, rule.Conditions(on, d.Conditions, at.Child("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, object(*d.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, at.Child("data"))...)
	}
	if d.NetworkData != nil {
		errs = append(errs, network(d.NetworkData, at.Child("networkData"))...)
	}
	return errs
}

func network(d *resourcev1.NetworkDeviceData, path *field.Path) (errs field.ErrorList) {
	if len(d.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(path.Child("interfaceName"), "", resourcev1.NetworkDeviceDataInterfaceNameMaxLength))
	}
	if len(d.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(path.Child("hardwareAddress"), "", resourcev1.NetworkDeviceDataHardwareAddressMaxLength))
	}
	return append(errs, unlike(d.IPs, resourcev1.NetworkDeviceDataMaxIPs, path.Child("ips"), itself,
		func(ip string, at *field.Path) field.ErrorList { return validation.IsValidInterfaceAddress(at, ip) })...)
}

func shareID(id string, path *field.Path) field.ErrorList {
	if uuid.MatchString(id) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, id,
		"uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")}
}

package core

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
)

func validateVolume(v, old *v1.PersistentVolume) (errs field.ErrorList) {
	s := &v.Spec
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	add(podspec.ValidateAccessModes(s.AccessModes, specPath.Child("accessModes"))...)
	add(validateCapacity(s.Capacity, specPath.Child("capacity"))...)
	at := specPath.Child("persistentVolumeReclaimPolicy")
	add(rule.Chosen(s.PersistentVolumeReclaimPolicy, at, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRetain)...)
	if s.HostPath != nil && path.Clean(s.HostPath.Path) == "/" && s.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		add(field.Forbidden(at, "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if a, at := s.NodeAffinity, specPath.Child("nodeAffinity"); a != nil {
		if a.Required == nil {
			add(field.Required(at.Child("required"), "must specify required node constraints"))
		} else {
			add(podspec.ValidateNodeSelector(a.Required, at.Child("required"))...)
		}
	} else if s.Local != nil {
		add(field.Required(at, "Local volume requires node affinity"))
	}
	add(validateVolumeSource(s)...)
	if s.StorageClassName != "" {
		add(rule.Format(s.StorageClassName, specPath.Child("storageClassName"), rule.Subdomain)...)
	}
	add(rule.AmongPtr(s.VolumeMode, specPath.Child("volumeMode"), v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)...)
	if c, at := s.VolumeAttributesClassName, specPath.Child("volumeAttributesClassName"); c != nil {
		add(rule.NeededFormat(*c, at, rule.Subdomain)...)
		if s.CSI == nil {
			add(field.Required(specPath.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	if old != nil {
		add(validateVolumeUpdate(s, &old.Spec)...)
	}
	return errs
}

func validateCapacity(list v1.ResourceList, path *field.Path) (errs field.ErrorList) {
	if len(list) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if _, ok := list[v1.ResourceStorage]; !ok || len(list) > 1 {
		errs = append(errs, field.NotSupported(path, list, []v1.ResourceName{v1.ResourceStorage}))
	}
	for _, n := range slices.Sorted(maps.Keys(list)) {
		errs = append(errs, podspec.ValidateStorage(list[n], path.Key(string(n)))...)
	}
	return errs
}

// validateVolumeSource checks that a volume has one source, and that it is well formed.
func validateVolumeSource(s *v1.PersistentVolumeSpec) (errs field.ErrorList) {
	n, source := 0, reflect.ValueOf(s.PersistentVolumeSource)
	for i := range source.NumField() {
		if source.Field(i).IsNil() {
			continue
		}
		name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
		at := specPath.Child(name)
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type"))
			continue
		}
		errs = append(errs, validateOwnSource(source.Field(i).Interface(), at)...)
	}
	if n == 0 {
		errs = append(errs, field.Required(specPath, "must specify a volume type"))
	}
	return errs
}

// validateOwnSource checks the sources that differ from those of pods; these need little.
func validateOwnSource(s any, path *field.Path) field.ErrorList {
	switch s := s.(type) {
	case *v1.LocalVolumeSource:
		if s.Path == "" {
			return field.ErrorList{field.Required(path.Child("path"), "")}
		}
		return podspec.ValidateRemote(&v1.HostPathVolumeSource{Path: s.Path}, path)
	case *v1.CSIPersistentVolumeSource:
		errs := podspec.ValidateDriverName(s.Driver, path.Child("driver"))
		errs = append(errs, rule.Needed(s.VolumeHandle, path.Child("volumeHandle"))...)
		for name, r := range map[string]*v1.SecretReference{"controllerPublishSecretRef": s.ControllerPublishSecretRef,
			"controllerExpandSecretRef": s.ControllerExpandSecretRef, "nodePublishSecretRef": s.NodePublishSecretRef,
			"nodeExpandSecretRef": s.NodeExpandSecretRef} {
			if r != nil {
				errs = append(errs, rule.Needed(r.Name, path.Child(name, "name"))...)
				errs = append(errs, rule.Needed(r.Namespace, path.Child(name, "namespace"))...)
			}
		}
		return errs
	case *v1.ISCSIPersistentVolumeSource:
		like := &v1.ISCSIVolumeSource{TargetPortal: s.TargetPortal, IQN: s.IQN, Lun: s.Lun, InitiatorName: s.InitiatorName,
			DiscoveryCHAPAuth: s.DiscoveryCHAPAuth, SessionCHAPAuth: s.SessionCHAPAuth}
		if s.SecretRef != nil {
			like.SecretRef = &v1.LocalObjectReference{Name: s.SecretRef.Name}
		}
		return podspec.ValidateRemote(like, path)
	case *v1.GlusterfsPersistentVolumeSource:
		return podspec.ValidateRemote(&v1.GlusterfsVolumeSource{EndpointsName: s.EndpointsName, Path: s.Path}, path)
	case *v1.RBDPersistentVolumeSource:
		return podspec.ValidateRemote(&v1.RBDVolumeSource{CephMonitors: s.CephMonitors, RBDImage: s.RBDImage}, path)
	case *v1.CephFSPersistentVolumeSource:
		return podspec.ValidateRemote(&v1.CephFSVolumeSource{Monitors: s.Monitors}, path)
	case *v1.CinderPersistentVolumeSource:
		return podspec.ValidateRemote(&v1.CinderVolumeSource{VolumeID: s.VolumeID}, path)
	case *v1.FlexPersistentVolumeSource:
		return podspec.ValidateRemote(&v1.FlexVolumeSource{Driver: s.Driver}, path)
	case *v1.AzureFilePersistentVolumeSource:
		return podspec.ValidateRemote(&v1.AzureFileVolumeSource{SecretName: s.SecretName, ShareName: s.ShareName}, path)
	case *v1.ScaleIOPersistentVolumeSource:
		return podspec.ValidateRemote(&v1.ScaleIOVolumeSource{Gateway: s.Gateway, System: s.System, VolumeName: s.VolumeName}, path)
	case *v1.StorageOSPersistentVolumeSource:
		return podspec.ValidateRemote(&v1.StorageOSVolumeSource{VolumeName: s.VolumeName}, path)
	}
	return podspec.ValidateRemote(s, path)
}

func validateVolumeUpdate(s, old *v1.PersistentVolumeSpec) (errs field.ErrorList) {
	is, was := s.PersistentVolumeSource, old.PersistentVolumeSource
	if is.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		is.CSI = is.CSI.DeepCopy() // may be added to a volume that was made before expansion was known
		is.CSI.ControllerExpandSecretRef = nil
	}
	if !rule.Same(is, was) {
		errs = append(errs, field.Forbidden(specPath.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	errs = append(errs, validation.ValidateImmutableField(s.VolumeMode, old.VolumeMode, specPath.Child("volumeMode"))...)
	if old.NodeAffinity != nil {
		errs = append(errs, validation.ValidateImmutableField(s.NodeAffinity, old.NodeAffinity, specPath.Child("nodeAffinity"))...)
	}
	return errs
}

func validateVolumeStatus(v, _ *v1.PersistentVolume) field.ErrorList {
	if v.Status.Phase == "" {
		return nil
	}
	return rule.Among(v.Status.Phase, statusPath.Child("phase"), v1.VolumePending, v1.VolumeAvailable, v1.VolumeBound,
		v1.VolumeReleased, v1.VolumeFailed)
}

func validateClaim(c, old *v1.PersistentVolumeClaim) field.ErrorList {
	errs := podspec.ValidateClaimSpec(&c.Spec, specPath)
	if old != nil {
		errs = append(errs, validateClaimUpdate(c, old)...)
	}
	return errs
}

// validateClaimUpdate lets a claim be bound once; a bound one may grow, and take another class of attributes.
func validateClaimUpdate(c, old *v1.PersistentVolumeClaim) (errs field.ErrorList) {
	is, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	podspec.AlignDataSources(was)
	if was.VolumeName == "" {
		was.VolumeName = is.VolumeName
	}
	if was.StorageClassName == nil && is.StorageClassName != nil && old.Spec.VolumeName == "" {
		was.StorageClassName = is.StorageClassName // a default class that came later
	}
	before, now := was.Resources.Requests[v1.ResourceStorage], is.Resources.Requests[v1.ResourceStorage]
	if c.Status.Phase == v1.ClaimBound && is.Resources.Requests != nil {
		is.Resources.Requests[v1.ResourceStorage] = before
	}
	is.VolumeAttributesClassName = was.VolumeAttributesClassName
	if !rule.Same(is, was) {
		errs = append(errs, field.Forbidden(specPath, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	have := old.Status.Capacity[v1.ResourceStorage]
	if now.Cmp(before) < 0 && now.Cmp(have) <= 0 {
		errs = append(errs, field.Forbidden(specPath.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, validation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, specPath.Child("volumeMode"))...)
	if old.Spec.VolumeAttributesClassName != nil && c.Spec.VolumeAttributesClassName == nil && old.Status.Phase == v1.ClaimBound {
		errs = append(errs, field.Forbidden(specPath.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

func validateClaimStatus(c, _ *v1.PersistentVolumeClaim) (errs field.ErrorList) {
	for _, f := range []struct {
		name string
		list v1.ResourceList
	}{{"capacity", c.Status.Capacity}, {"allocatedResources", c.Status.AllocatedResources}} {
		for _, n := range slices.Sorted(maps.Keys(f.list)) {
			errs = append(errs, podspec.ValidateQuantity(n, f.list[n], statusPath.Child(f.name).Key(string(n)))...)
		}
	}
	return errs
}

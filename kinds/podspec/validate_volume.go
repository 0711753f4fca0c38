package podspec

import (
	"path"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// checkVolumes checks the volumes and remembers those that are good: others can't be mounted.
func (c *checker) checkVolumes(path *field.Path) (errs field.ErrorList) {
	c.volumes = make(map[string]*v1.VolumeSource, len(c.spec.Volumes))
	for i := range c.spec.Volumes {
		v, at := &c.spec.Volumes[i], path.Index(i)
		bad := c.checkSource(v, at)
		bad = append(bad, rule.NeededFormat(v.Name, at.Child("name"), rule.Label)...)
		if c.volumes[v.Name] != nil {
			bad = append(bad, field.Duplicate(at.Child("name"), v.Name))
		}
		if len(bad) == 0 {
			c.volumes[v.Name] = &v.VolumeSource
		}
		errs = append(errs, bad...)
	}
	return errs
}

// checkSource checks that a volume has one source, and that it is well formed.
func (c *checker) checkSource(v *v1.Volume, path *field.Path) (errs field.ErrorList) {
	n := 0
	source := reflect.ValueOf(v.VolumeSource)
	for i := range source.NumField() {
		if source.Field(i).IsNil() {
			continue
		}
		name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 volume type"))
			continue
		}
		errs = append(errs, checkVolumeSource(source.Field(i).Interface(), path.Child(name))...)
	}
	if n == 0 {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

func checkVolumeSource(s any, path *field.Path) (errs field.ErrorList) {
	switch s := s.(type) {
	case *v1.EmptyDirVolumeSource:
		if s.SizeLimit != nil && s.SizeLimit.Sign() < 0 {
			errs = append(errs, field.Forbidden(path.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
		return errs
	case *v1.SecretVolumeSource:
		errs = rule.Needed(s.SecretName, path.Child("secretName"))
		errs = append(errs, checkMode(s.DefaultMode, path.Child("defaultMode"))...)
		return append(errs, checkItems(s.Items, path.Child("items"))...)
	case *v1.ConfigMapVolumeSource:
		errs = rule.Needed(s.Name, path.Child("name"))
		errs = append(errs, checkMode(s.DefaultMode, path.Child("defaultMode"))...)
		return append(errs, checkItems(s.Items, path.Child("items"))...)
	case *v1.DownwardAPIVolumeSource:
		errs = checkMode(s.DefaultMode, path.Child("defaultMode"))
		return append(errs, checkFiles(s.Items, path)...)
	case *v1.ProjectedVolumeSource:
		errs = checkMode(s.DefaultMode, path.Child("defaultMode"))
		return append(errs, checkProjected(s.Sources, path.Child("sources"))...)
	case *v1.EphemeralVolumeSource:
		if s.VolumeClaimTemplate == nil {
			return field.ErrorList{field.Required(path.Child("volumeClaimTemplate"), "")}
		}
		return ValidateClaimSpec(&s.VolumeClaimTemplate.Spec, path.Child("volumeClaimTemplate", "spec"))
	case *v1.ImageVolumeSource:
		errs = rule.Needed(s.Reference, path.Child("reference"))
		return append(errs, rule.Chosen(s.PullPolicy, path.Child("pullPolicy"), v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...)
	case *v1.CSIVolumeSource:
		errs = ValidateDriverName(s.Driver, path.Child("driver"))
		return append(errs, checkRefName(s.NodePublishSecretRef, path.Child("nodePublishSecretRef"))...)
	case *v1.GitRepoVolumeSource:
		errs = rule.Needed(s.Repository, path.Child("repository"))
		return append(errs, checkInnerPath(s.Directory, path.Child("directory"))...)
	case *v1.PersistentVolumeClaimVolumeSource:
		return rule.Needed(s.ClaimName, path.Child("claimName"))
	}
	return ValidateRemote(s, path)
}

func checkRefName(r *v1.LocalObjectReference, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	return rule.Needed(r.Name, path.Child("name"))
}

func checkMode(mode *int32, path *field.Path) field.ErrorList {
	if mode != nil && (*mode > 0o777 || *mode < 0) {
		return field.ErrorList{field.Invalid(path, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

func checkItems(items []v1.KeyToPath, path *field.Path) (errs field.ErrorList) {
	for i, it := range items {
		at := path.Index(i)
		errs = append(errs, rule.Needed(it.Key, at.Child("key"))...)
		errs = append(errs, rule.Needed(it.Path, at.Child("path"))...)
		errs = append(errs, checkVisiblePath(it.Path, at.Child("path"))...)
		errs = append(errs, checkMode(it.Mode, at.Child("mode"))...)
	}
	return errs
}

// checkFiles checks files about the pod; their errors lack the index, clients know them so.
func checkFiles(items []v1.DownwardAPIVolumeFile, path *field.Path) (errs field.ErrorList) {
	for i := range items {
		it := &items[i]
		errs = append(errs, rule.Needed(it.Path, path.Child("path"))...)
		errs = append(errs, checkVisiblePath(it.Path, path.Child("path"))...)
		switch {
		case it.FieldRef != nil:
			errs = append(errs, checkFieldRef(it.FieldRef, fileFields, path.Child("fieldRef"))...)
			if it.ResourceFieldRef != nil {
				errs = append(errs, field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case it.ResourceFieldRef != nil:
			errs = append(errs, checkAmountRef(it.ResourceFieldRef, true, path.Child("resourceFieldRef"))...)
		default:
			errs = append(errs, field.Required(path, "one of fieldRef and resourceFieldRef is required"))
		}
		errs = append(errs, checkMode(it.Mode, path.Child("mode"))...)
	}
	return errs
}

func checkHostPath(s *v1.HostPathVolumeSource, path *field.Path) field.ErrorList {
	if s.Path == "" {
		return field.ErrorList{field.Required(path.Child("path"), "")}
	}
	errs := checkBacksteps(s.Path, path.Child("path"))
	return append(errs, rule.AmongPtr(s.Type, path.Child("type"), v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
		v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)...)
}

func checkNFS(s *v1.NFSVolumeSource, at *field.Path) field.ErrorList {
	errs := rule.Needed(s.Server, at.Child("server"))
	errs = append(errs, rule.Needed(s.Path, at.Child("path"))...)
	if !path.IsAbs(s.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), s.Path, "must be an absolute path"))
	}
	return errs
}

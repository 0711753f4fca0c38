package podspec

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// checkMounts checks the mounts of a container. Some errors lack the index of the mount: clients know them so.
func (c *checker) checkMounts(k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	places, devices, devicePlaces := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, d := range k.VolumeDevices {
		devices.Insert(d.Name)
		devicePlaces.Insert(d.DevicePath)
	}
	for i := range k.VolumeMounts {
		m, at := &k.VolumeMounts[i], path.Index(i)
		add(rule.Needed(m.Name, at.Child("name"))...)
		if c.volumes[m.Name] == nil {
			add(field.NotFound(at.Child("name"), m.Name))
		}
		add(rule.Needed(m.MountPath, at.Child("mountPath"))...)
		if places.Has(m.MountPath) {
			add(field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		places.Insert(m.MountPath)
		if devices.Has(m.Name) {
			add(field.Invalid(at.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if devicePlaces.Has(m.MountPath) {
			add(field.Invalid(at.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
		}
		if m.SubPath != "" {
			add(checkInnerPath(m.SubPath, path.Child("subPath"))...)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				add(field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			add(checkInnerPath(m.SubPathExpr, path.Child("subPathExpr"))...)
		}
		add(checkPropagation(m, k, path)...)
	}
	return errs
}

func checkPropagation(m *corev1.VolumeMount, k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	if p := m.MountPropagation; p != nil {
		at := path.Child("mountPropagation")
		errs = append(errs, rule.Among(*p, at, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer,
			corev1.MountPropagationNone)...)
		privileged := k.SecurityContext != nil && k.SecurityContext.Privileged != nil && *k.SecurityContext.Privileged
		if *p == corev1.MountPropagationBidirectional && !privileged {
			errs = append(errs, field.Forbidden(at, "Bidirectional mount propagation is available only to privileged containers"))
		}
	}
	r := m.RecursiveReadOnly
	if r == nil || *r == corev1.RecursiveReadOnlyDisabled {
		return errs
	}
	at := path.Child("recursiveReadOnly")
	if bad := rule.Among(*r, at, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled,
		corev1.RecursiveReadOnlyIfPossible); len(bad) > 0 {
		return append(errs, bad...)
	}
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(at, "may only be specified when readOnly is true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(at, "may only be specified when mountPropagation is None or not specified"))
	}
	return errs
}

func (c *checker) checkDevices(k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	names, places, mounts, mountPlaces := sets.New[string](), sets.New[string](), sets.New[string](), sets.New[string]()
	for i := range k.VolumeMounts {
		mounts.Insert(k.VolumeMounts[i].Name)
		mountPlaces.Insert(k.VolumeMounts[i].MountPath)
	}
	for i, d := range k.VolumeDevices {
		at := path.Index(i)
		add(rule.Needed(d.Name, at.Child("name"))...)
		if d.Name != "" && names.Has(d.Name) {
			add(field.Invalid(at.Child("name"), d.Name, "must be unique"))
		}
		switch v := c.volumes[d.Name]; {
		case v == nil:
			add(field.NotFound(at.Child("name"), d.Name))
		case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
			add(field.Invalid(at.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		add(rule.Needed(d.DevicePath, at.Child("devicePath"))...)
		switch {
		case places.Has(d.DevicePath):
			add(field.Invalid(at.Child("devicePath"), d.DevicePath, "must be unique"))
		case hasBackstep(d.DevicePath):
			add(field.Invalid(at.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		}
		if mounts.Has(d.Name) {
			add(field.Invalid(at.Child("name"), d.Name, "must not already exist in volumeMounts"))
		}
		if mountPlaces.Has(d.DevicePath) {
			add(field.Invalid(at.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		names.Insert(d.Name)
		if !hasBackstep(d.DevicePath) {
			places.Insert(d.DevicePath)
		}
	}
	return errs
}

func hasBackstep(p string) bool {
	return strings.Contains(p, "..") && slices.Contains(strings.Split(strings.ReplaceAll(p, `\`, "/"), "/"), "..")
}

// checkBacksteps refuses paths that lead upwards anywhere.
func checkBacksteps(p string, at *field.Path) field.ErrorList {
	if hasBackstep(p) {
		return field.ErrorList{field.Invalid(at, p, "must not contain '..'")}
	}
	return nil
}

// checkInnerPath asks for a path inside of a volume.
func checkInnerPath(p string, at *field.Path) (errs field.ErrorList) {
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(at, p, "must be a relative path"))
	}
	return append(errs, checkBacksteps(p, at)...)
}

// checkVisiblePath asks for a path inside of a volume that does not begin like those that only the node uses.
func checkVisiblePath(p string, in *field.Path, name string) field.ErrorList {
	if !path.IsAbs(p) && !strings.Contains(p, "..") {
		return nil // as a rule
	}
	at := in.Child(name)
	errs := checkInnerPath(p, at)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		errs = append(errs, field.Invalid(at, p, "must not start with '..'"))
	}
	return errs
}

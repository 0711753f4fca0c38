package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// ValidateClaimSpec checks a claim for storage, of its own or in a template.
func ValidateClaimSpec(s *corev1.PersistentVolumeClaimSpec, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	modes := ValidateAccessModes(s.AccessModes, "at least 1 access mode is required", path.Child("accessModes"))
	if len(s.AccessModes) > 0 { // a missing one comes before the selector
		modes = append(checkSelector(s.Selector, path.Child("selector")), modes...)
	} else {
		modes = append(modes, checkSelector(s.Selector, path.Child("selector"))...)
	}
	add(modes...)
	at := path.Child("resources").Key(string(corev1.ResourceStorage))
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; ok {
		add(ValidateStorage(q, at)...)
	} else {
		add(field.Required(at, ""))
	}
	if c := s.StorageClassName; c != nil && *c != "" {
		add(rule.Format(*c, path.Child("storageClassName"), rule.Subdomain)...)
	}
	add(rule.AmongPtr(s.VolumeMode, path.Child("volumeMode"), corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	if d := s.DataSource; d != nil {
		add(checkDataSource(d.APIGroup, d.Kind, d.Name, path.Child("dataSource"))...)
	}
	add(checkDataSourceRef(s, path)...)
	if c := s.VolumeAttributesClassName; c != nil && *c != "" {
		add(rule.Format(*c, path.Child("volumeAttributesClassName"), rule.Subdomain)...)
	}
	return errs
}

// ValidateStorage asks for some bytes.
func ValidateStorage(q apiresource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, q.String(), "must be greater than zero")}
	}
	return nil
}

var accessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany,
	corev1.ReadWriteOncePod}

// ValidateAccessModes checks in what ways storage is to be used; needed is said where none is.
func ValidateAccessModes(modes []corev1.PersistentVolumeAccessMode, needed string, path *field.Path) (errs field.ErrorList) {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(path, needed)}
	}
	for _, m := range modes {
		errs = append(errs, rule.Among(m, path, accessModes...)...)
	}
	other := slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m != corev1.ReadWriteOncePod && slices.Contains(accessModes, m)
	})
	if other && slices.Contains(modes, corev1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func checkDataSource(group *string, kind, name string, path *field.Path) (errs field.ErrorList) {
	errs = needs(path, "name", name, "kind", kind)
	switch {
	case (group == nil || *group == "") && kind != "PersistentVolumeClaim":
		errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	case group != nil && *group != "":
		errs = append(errs, rule.Format(*group, path.Child("apiGroup"), rule.Subdomain)...)
	}
	return errs
}

func checkDataSourceRef(s *corev1.PersistentVolumeClaimSpec, path *field.Path) (errs field.ErrorList) {
	r := s.DataSourceRef
	if r == nil {
		return nil
	}
	at := path.Child("dataSourceRef")
	errs = checkDataSource(r.APIGroup, r.Kind, r.Name, at)
	if r.Namespace != nil && *r.Namespace != "" {
		errs = append(errs, rule.Says(utilvalidation.IsDNS1123Label(*r.Namespace), *r.Namespace, at.Child("namespace"))...)
		if s.DataSource != nil {
			errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
		}
		return errs
	}
	if d := s.DataSource; d != nil && (d.Name != r.Name || d.Kind != r.Kind || !resource.Same(d.APIGroup, r.APIGroup)) {
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
	}
	return errs
}

// ValidateDriverName checks the name of a storage driver.
func ValidateDriverName(name string, path *field.Path) (errs field.ErrorList) {
	if len(name) > 63 {
		errs = append(errs, field.TooLong(path, name, 63))
	}
	return append(errs, rule.NeededFormat(strings.ToLower(name), path, rule.Subdomain)...)
}

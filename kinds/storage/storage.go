// Package storage declares the kinds of the group storage.k8s.io: classes of storage, the drivers that
// provide it, and what is attached where.
package storage

import (
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// The limits of parameters and of metadata of attachments, in bytes, and of names.
const (
	maxParameters     = 512
	maxParametersSize = 256 << 10
	maxDriverName     = 63
	maxNodeID         = 256
	maxErrorMessage   = 1024
)

func gvk(kind string) schema.GroupVersionKind { return storagev1.SchemeGroupVersion.WithKind(kind) }

// parameters checks what is handed to a driver.
func parameters(p map[string]string, needed bool, path *field.Path) (errs field.ErrorList) {
	if len(p) == 0 && needed {
		return field.ErrorList{field.Required(path, "must contain at least one key/value pair")}
	}
	if len(p) > maxParameters {
		return field.ErrorList{field.TooLong(path, "", maxParameters)}
	}
	size := 0
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if k == "" {
			errs = append(errs, field.Invalid(path, k, "field can not be empty."))
		}
		size += len(k) + len(p[k])
	}
	if size > maxParametersSize {
		errs = append(errs, field.TooLong(path, "", maxParametersSize))
	}
	return errs
}

// provisioner checks the name of what makes volumes: a driver or something older.
func provisioner(name string, path *field.Path) field.ErrorList {
	return rule.NeededFormat(strings.ToLower(name), path, validation.IsQualifiedName)
}

// driverName checks the name of a CSI driver, which may have upper case letters.
func driverName(name string, path *field.Path) (errs field.ErrorList) {
	if name == "" {
		errs = append(errs, field.Required(path, ""))
		return errs
	}
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(path, name, maxDriverName))
	}
	return append(errs, rule.Says(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, path)...)
}

package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// The annotations that make a class the default one, now and before, and the one of classes of attributes.
const (
	defaultClass      = "storageclass.kubernetes.io/is-default-class"
	defaultClassBeta  = "storageclass.beta.kubernetes.io/is-default-class"
	defaultAttributes = "volumeattributesclass.alpha.kubernetes.io/is-default-class"
)

// StorageClasses declares the kind.
var StorageClasses = &resource.Def[*storagev1.StorageClass]{
	GVK: gvk("StorageClass"), Plural: "storageclasses", Short: []string{"sc"},
	Quirks: resource.Quirks{DeleteReturnsObject: true, MetaNewFirst: true, Declared: []string{"Required provisioner"}},
	Default: func(c *storagev1.StorageClass) {
		rule.Fill(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		rule.Fill(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	},
	Gated: resource.Gated[*storagev1.StorageClass]{Validate: resource.Serving(validateClass)},
	Warn:  resource.Serving(warnClass),
	Among: resource.Serving(markDefault),
	Columns: []resource.Column[*storagev1.StorageClass]{
		resource.Col("Provisioner", "string", func(c *storagev1.StorageClass) any { return c.Provisioner }),
		resource.Col("ReclaimPolicy", "string", func(c *storagev1.StorageClass) any { return orDefault(c.ReclaimPolicy, "Delete") }),
		resource.Col("VolumeBindingMode", "string", func(c *storagev1.StorageClass) any { return orDefault(c.VolumeBindingMode, "Immediate") }),
		resource.Col("AllowVolumeExpansion", "string", func(c *storagev1.StorageClass) any {
			return c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion
		}),
		resource.Age[*storagev1.StorageClass](),
	},
}

// markDefault marks the default class of a list: the newest with the annotation. Up to 1.36 every class with it has the mark, one
// that is shown alone too.
func markDefault(on *features.Set, list []*storagev1.StorageClass) func(c *storagev1.StorageClass, cells []any) {
	var chosen *storagev1.StorageClass
	for _, c := range list {
		if saysDefault(c) && (chosen == nil || newerClass(c, chosen)) {
			chosen = c
		}
	}
	return func(c *storagev1.StorageClass, cells []any) {
		if older := !on.AtLeast(37); older && saysDefault(c) || !older && c == chosen && len(list) > 0 {
			cells[0] = c.Name + " (default)"
		}
	}
}

func saysDefault(c *storagev1.StorageClass) bool {
	return c.Annotations[defaultClass] == "true" || c.Annotations[defaultClassBeta] == "true"
}

// newerClass says whether a was made after b; of two made at once the first by name counts.
func newerClass(a, b *storagev1.StorageClass) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.Name < b.Name
}

// warnClass warns of labels of nodes that have newer names.
func warnClass(c, _ *storagev1.StorageClass) (list []string) {
	for i, t := range c.AllowedTopologies {
		for k, e := range t.MatchLabelExpressions {
			at := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(k)
			list = append(list, podspec.LabelWarnings(e.Key, at.Child("key"))...)
		}
	}
	return list
}

func orDefault[T ~string](p *T, or string) string {
	if p == nil {
		return or
	}
	return string(*p)
}

func validateClass(on *features.Set, c, old *storagev1.StorageClass) (errs field.ErrorList) {
	errs = append(errs, provisioner(c.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, parameters(c.Parameters, false, field.NewPath("parameters"))...)
	if p := c.ReclaimPolicy; p != nil && *p != "" { // an empty one passes, too
		errs = append(errs, rule.Among(*p, field.NewPath("reclaimPolicy"), corev1.PersistentVolumeReclaimDelete,
			corev1.PersistentVolumeReclaimRetain)...)
	}
	if c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(field.NewPath("volumeBindingMode"), ""))
	}
	errs = append(errs, rule.AmongPtr(c.VolumeBindingMode, field.NewPath("volumeBindingMode"),
		storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	errs = append(errs, topologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
	if old == nil {
		return errs
	}
	return append(errs, classKept(on, c, old)...)
}

// classKept refuses changes. Up to 1.36 errors hold the new value, and the parameters come first.
func classKept(on *features.Set, c, old *storagev1.StorageClass) (errs field.ErrorList) {
	parameters := rule.Frozen(c.Parameters, old.Parameters, field.NewPath("parameters"))
	errs = append(errs, rule.Frozen(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	if on.AtLeast(37) {
		errs = append(errs, parameters...)
	} else {
		errs = append(parameters, errs...)
	}
	errs = append(errs, rule.Frozen(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	errs = append(errs, rule.Frozen(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
	for _, e := range errs {
		if on.AtLeast(37) {
			e.BadValue = nil
		}
	}
	return errs
}

// maxTwice bounds the errors about topologies that are there already: upstream has one for each pair of them, and a thousand have a
// million pairs.
const maxTwice = 10_000

func topologies(list []corev1.TopologySelectorTerm, path *field.Path) (errs field.ErrorList) {
	seen, twice := map[string]int{"": len(list)}, 0 // as upstream, where an empty one is like each of those that are still to come
	for i, term := range list {
		at, keys := path.Index(i).Child("matchLabelExpressions"), map[string][]string{}
		for k, e := range term.MatchLabelExpressions {
			expr := at.Index(k)
			if len(e.Values) == 0 {
				errs = append(errs, field.Required(expr.Child("values"), ""))
			}
			errs = append(errs, rule.Duplicates(e.Values, expr.Child("values").Index)...)
			errs = append(errs, metavalidation.ValidateLabelName(e.Key, expr.Child("key"))...)
			if _, dup := keys[e.Key]; dup {
				errs = append(errs, field.Duplicate(expr.Child("key"), e.Key))
			}
			keys[e.Key] = slices.Sorted(slices.Values(e.Values))
		}
		var text strings.Builder
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			fmt.Fprintf(&text, "%q", append([]string{key}, keys[key]...))
		}
		for range min(seen[text.String()], maxTwice-twice) {
			errs = append(errs, field.Duplicate(at, ""))
			twice++
		}
		seen[text.String()]++
	}
	return errs
}

// VolumeAttributesClasses declares the kind.
var VolumeAttributesClasses = &resource.Def[*storagev1.VolumeAttributesClass]{
	GVK: gvk("VolumeAttributesClass"), Plural: "volumeattributesclasses", Short: []string{"vac"},
	Quirks:   resource.Quirks{DeleteReturnsObject: true},
	Validate: resource.Serving(validateAttributesClass),
	Columns: []resource.Column[*storagev1.VolumeAttributesClass]{
		resource.Name(func(c *storagev1.VolumeAttributesClass) any {
			if c.Annotations[defaultAttributes] == "true" {
				return c.Name + " (default)"
			}
			return c.Name
		}),
		resource.Col("DriverName", "string", func(c *storagev1.VolumeAttributesClass) any { return c.DriverName }),
		resource.Age[*storagev1.VolumeAttributesClass](),
	},
}

func validateAttributesClass(c, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if old != nil && c.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if old != nil && !resource.Same(c.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	errs = append(errs, provisioner(c.DriverName, field.NewPath("driverName"))...)
	return append(errs, parameters(c.Parameters, true, field.NewPath("parameters"))...)
}

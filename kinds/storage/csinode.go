package storage

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// CSINodes declares the kind.
var CSINodes = &resource.Def[*storagev1.CSINode]{
	GVK: gvk("CSINode"), Plural: "csinodes", Status: true, // since 1.37, see kinds/served
	Validate: resource.Serving(validateNode), Gated: resource.Gated[*storagev1.CSINode]{Drop: dropHealth},
	Quirks: resource.Quirks{NeedsRevision: true, DeleteReturnsObject: true, MetaErrorsOnce: true, StatusUnchecked: true,
		StatusResets: []string{"metadata"}},
	Columns: []resource.Column[*storagev1.CSINode]{
		resource.Col("Drivers", "integer", func(n *storagev1.CSINode) any { return int64(len(n.Spec.Drivers)) }),
		resource.Age[*storagev1.CSINode](),
	},
}

// dropHealth drops all that the status holds: its feature, CSIVolumeHealth, is off by default upstream too.
func dropHealth(_ *features.Set, n, old *storagev1.CSINode) {
	if old == nil || len(old.Status.StorageHealth) == 0 {
		n.Status.StorageHealth = nil
	}
}

func validateNode(n, old *storagev1.CSINode) (errs field.ErrorList) {
	path, seen := field.NewPath("spec", "drivers"), map[string]bool{}
	for i, d := range n.Spec.Drivers {
		at := path.Index(i)
		errs = append(errs, driverName(d.Name, at.Child("name"))...)
		errs = append(errs, nodeID(d, at.Child("nodeID"))...)
		if d.Allocatable != nil {
			errs = append(errs, rule.AtLeastPtr(d.Allocatable.Count, 0, at.Child("allocatable", "count"))...)
		}
		if seen[d.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		seen[d.Name] = true
		errs = append(errs, driverKeys(d, at)...)
	}
	if old != nil {
		errs = append(errs, driversKept(n.Spec.Drivers, old.Spec.Drivers)...)
	}
	return errs
}

func nodeID(d storagev1.CSINodeDriver, at *field.Path) field.ErrorList {
	switch {
	case d.NodeID == "":
		return field.ErrorList{field.Required(at, "")}
	case len(d.NodeID) > maxNodeID:
		return field.ErrorList{field.Invalid(at, d.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID))}
	}
	return nil
}

func driverKeys(d storagev1.CSINodeDriver, at *field.Path) (errs field.ErrorList) {
	for i, k := range d.TopologyKeys { // all named by the driver they belong to
		errs = append(errs, rule.Needed(k, at)...)
		if slices.Contains(d.TopologyKeys[:i], k) {
			errs = append(errs, field.Duplicate(at, k))
		}
		errs = append(errs, rule.Format(k, at, validation.IsQualifiedName)...)
	}
	return errs
}

// driversKept lets drivers come and go but not change; what is allocatable may.
func driversKept(list, old []storagev1.CSINodeDriver) (errs field.ErrorList) {
	for _, o := range old {
		for _, n := range list {
			if n.Name != o.Name {
				continue
			}
			was := o
			n.Allocatable, was.Allocatable = nil, nil
			if !resource.Same(n, was) {
				errs = append(errs, field.Invalid(field.NewPath("spec", "drivers"), rule.Internal(n), "field is immutable"))
			}
		}
	}
	return errs
}

// CSIStorageCapacities declares the kind.
var CSIStorageCapacities = &resource.Def[*storagev1.CSIStorageCapacity]{
	GVK: gvk("CSIStorageCapacity"), Plural: "csistoragecapacities", Namespaced: true,
	Validate: resource.Serving(validateCapacity),
	Warn:     resource.Serving(warnCapacity),
	Quirks:   resource.Quirks{NeedsRevision: true, MetaNewFirst: true},
}

// warnCapacity warns of labels of nodes that have newer names.
func warnCapacity(c, _ *storagev1.CSIStorageCapacity) (list []string) {
	if c.NodeTopology == nil {
		return nil
	}
	at := field.NewPath("nodeTopology")
	for i, e := range c.NodeTopology.MatchExpressions {
		list = append(list, podspec.LabelWarnings(e.Key, at.Child("matchExpressions").Index(i).Child("key"))...)
	}
	for key := range c.NodeTopology.MatchLabels {
		list = append(list, podspec.LabelWarnings(key, at.Child("matchLabels").Child(key))...)
	}
	return list
}

func validateCapacity(c, old *storagev1.CSIStorageCapacity) (errs field.ErrorList) {
	class, topology := field.NewPath("storageClassName"), field.NewPath("nodeTopology")
	errs = append(errs, rule.Selector(c.NodeTopology, topology)...)
	errs = append(errs, rule.Format(c.StorageClassName, class, rule.Subdomain)...)
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), "must be greater than or equal to 0"))
	}
	if old != nil {
		errs = append(errs, rule.Frozen(c.NodeTopology, old.NodeTopology, topology)...)
		errs = append(errs, rule.Frozen(c.StorageClassName, old.StorageClassName, class)...)
	}
	return errs
}

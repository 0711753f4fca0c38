package storage

import (
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// The bounds of token lifetimes and of the period of capacity updates, in seconds.
const (
	minTokenLife    = 10 * 60
	maxTokenLife    = 1 << 32
	minUpdatePeriod = 10
)

// CSIDrivers declares the kind.
var CSIDrivers = &resource.Def[*storagev1.CSIDriver]{
	GVK: gvk("CSIDriver"), Plural: "csidrivers", Default: defaultDriver,
	Prepare: resource.Serving(prepareDriver), Validate: resource.Serving(validateDriver),
	Quirks: resource.Quirks{MetaUpdateOnly: true, NeedsRevision: true, DeleteReturnsObject: true},
	Gated:  resource.Gated[*storagev1.CSIDriver]{Default: defaultMissing, Drop: resource.Serving(dropMissing)},
	Warn:   resource.Serving(warnDriver),
	Columns: []resource.Column[*storagev1.CSIDriver]{
		resource.Col("AttachRequired", "boolean",
			func(d *storagev1.CSIDriver) any { return d.Spec.AttachRequired == nil || *d.Spec.AttachRequired }),
		resource.Col("PodInfoOnMount", "boolean", func(d *storagev1.CSIDriver) any { return is(d.Spec.PodInfoOnMount) }),
		resource.Col("StorageCapacity", "boolean", func(d *storagev1.CSIDriver) any { return is(d.Spec.StorageCapacity) }),
		resource.Col("TokenRequests", "string", func(d *storagev1.CSIDriver) any {
			var list []string
			for _, t := range d.Spec.TokenRequests {
				list = append(list, t.Audience)
			}
			if list == nil {
				return cell.Unset
			}
			return strings.Join(list, ",")
		}),
		resource.Col("RequiresRepublish", "boolean", func(d *storagev1.CSIDriver) any { return is(d.Spec.RequiresRepublish) }),
		resource.Col("Modes", "string", func(d *storagev1.CSIDriver) any {
			var list []string
			for _, m := range d.Spec.VolumeLifecycleModes {
				list = append(list, string(m))
			}
			return cell.Or(strings.Join(list, ","), cell.None)
		}),
		resource.Age[*storagev1.CSIDriver](),
	},
}

func is(b *bool) bool { return b != nil && *b }

func defaultDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	rule.Fill(&s.AttachRequired, true)
	rule.Fill(&s.PodInfoOnMount, false)
	rule.Fill(&s.StorageCapacity, false)
	rule.Fill(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	rule.Fill(&s.RequiresRepublish, false)
	rule.Fill(&s.SELinuxMount, false)
}

// warnDriver warns of tokens that reach the driver by a way on which they may be logged.
func warnDriver(d, old *storagev1.CSIDriver) []string {
	s := &d.Spec
	if len(s.TokenRequests) == 0 || s.ServiceAccountTokenInSecrets != nil || old != nil && resource.Same(s.TokenRequests,
		old.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent " +
		"possible logging of tokens in volume attributes"}
}

// defaultMissing and dropMissing are about pods that need the driver where it isn't.
func defaultMissing(on *features.Set, d *storagev1.CSIDriver) {
	if on.On("VolumeLimitScaling") {
		rule.Fill(&d.Spec.PreventPodSchedulingIfMissing, false)
	}
}

func dropMissing(on *features.Set, d, old *storagev1.CSIDriver) {
	if !on.On("VolumeLimitScaling") && (old == nil || old.Spec.PreventPodSchedulingIfMissing == nil) {
		d.Spec.PreventPodSchedulingIfMissing = nil
	}
}

// prepareDriver counts changes; a new driver has no generation.
func prepareDriver(d, old *storagev1.CSIDriver) {
	if old != nil && !resource.Same(d.Spec, old.Spec) {
		d.Generation = old.Generation + 1
	}
}

func validateDriver(d, old *storagev1.CSIDriver) (errs field.ErrorList) {
	s, spec := &d.Spec, field.NewPath("spec")
	for _, f := range []struct {
		name  string
		unset bool
	}{{"attachedRequired", s.AttachRequired == nil}, {"podInfoOnMount", s.PodInfoOnMount == nil},
		{"storageCapacity", s.StorageCapacity == nil}, {"fsGroupPolicy", s.FSGroupPolicy == nil},
		{"seLinuxMount", s.SELinuxMount == nil}} {
		if f.unset {
			errs = append(errs, field.Required(spec.Child(f.name), ""))
		}
	}
	errs = append(errs, rule.AmongPtr(s.FSGroupPolicy, spec.Child("fsGroupPolicy"),
		storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy)...)
	errs = append(errs, tokens(s.TokenRequests, spec.Child("tokenRequests"))...)
	for _, m := range s.VolumeLifecycleModes {
		errs = append(errs, rule.Listed(m, spec.Child("volumeLifecycleModes"), storagev1.VolumeLifecyclePersistent,
			storagev1.VolumeLifecycleEphemeral)...)
	}
	if in := s.ServiceAccountTokenInSecrets; in != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(spec.Child("serviceAccountTokenInSecrets"), *in,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	if p := s.NodeAllocatableUpdatePeriodSeconds; p != nil && *p < minUpdatePeriod {
		errs = append(errs, field.Invalid(spec.Child("nodeAllocatableUpdatePeriodSeconds"), *p,
			fmt.Sprintf("must be greater than or equal to %d seconds", minUpdatePeriod)))
	}
	if old != nil {
		errs = append(errs, rule.Frozen(s.AttachRequired, old.Spec.AttachRequired, spec.Child("attachedRequired"))...)
		errs = append(errs, rule.Frozen(s.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, spec.Child("volumeLifecycleModes"))...)
	}
	return errs
}

func tokens(list []storagev1.TokenRequest, path *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, t := range list {
		if seen[t.Audience] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("audience"), t.Audience))
			continue
		}
		seen[t.Audience] = true
		if e := t.ExpirationSeconds; e != nil {
			switch at := path.Index(i).Child("expirationSeconds"); {
			case *e < minTokenLife:
				errs = append(errs, field.Invalid(at, *e, "may not specify a duration less than 10 minutes"))
			case *e > maxTokenLife:
				errs = append(errs, field.Invalid(at, *e, "may not specify a duration larger than 2^32 seconds"))
			}
		}
	}
	return errs
}

// Package dra declares the kinds of the group resource.k8s.io: devices, who offers them, and who claims them.
package dra

import (
	"fmt"
	"reflect"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

func gvk(kind string) schema.GroupVersionKind { return resourcev1.SchemeGroupVersion.WithKind(kind) }

// DeviceClasses declares the kind.
var DeviceClasses = &resource.Def[*resourcev1.DeviceClass]{
	GVK: gvk("DeviceClass"), Plural: "deviceclasses", Generation: true,
	Gated:   resource.Gated[*resourcev1.DeviceClass]{Validate: resource.Serving(validateClass)},
	Quirks:  resource.Quirks{DeleteReturnsObject: true, SkipGenerateNameCheck: true, MetaNewFirst: true},
	Columns: []resource.Column[*resourcev1.DeviceClass]{resource.Age[*resourcev1.DeviceClass]()},
}

// ResourceClaims declares the kind.
var ResourceClaims = &resource.Def[*resourcev1.ResourceClaim]{
	GVK: gvk("ResourceClaim"), Plural: "resourceclaims", Namespaced: true, Status: true,
	Quirks: resource.Quirks{DeleteReturnsObject: true, StatusWithoutTable: true, StatusResets: []string{"metadata"},
		MetaNewFirst: true},
	Default: func(c *resourcev1.ResourceClaim) { defaultClaim(&c.Spec, &c.Status) },
	Prepare: func(c, old *resourcev1.ResourceClaim) {
		dropAlpha(c, old, old == nil, func(c *resourcev1.ResourceClaim) { dropDerived(&c.Spec) })
	},
	Gated: resource.Gated[*resourcev1.ResourceClaim]{Validate: resource.Serving(validateClaim),
		ValidateStatus: resource.Serving(validateClaimStatus)},
	PrepareStatus: resource.Serving(forgetDevices),
	Columns: []resource.Column[*resourcev1.ResourceClaim]{
		resource.Col("State", "string", func(c *resourcev1.ResourceClaim) any { return state(c) }),
		resource.Age[*resourcev1.ResourceClaim](),
	},
}

func validateClaim(on *features.Set, c, old *resourcev1.ResourceClaim) field.ErrorList {
	if old == nil {
		return claim(on, &c.Spec.Devices, field.NewPath("spec", "devices"))
	}
	errs := rule.FrozenJSON(c.Spec, old.Spec, field.NewPath("spec"))
	for _, e := range errs { // since 1.37 without a value
		if e.BadValue = rule.Internal(c.Spec); on.AtLeast(37) {
			e.BadValue = nil
		}
	}
	return errs
}

// ResourceClaimTemplates declares the kind.
var ResourceClaimTemplates = &resource.Def[*resourcev1.ResourceClaimTemplate]{
	GVK: gvk("ResourceClaimTemplate"), Plural: "resourceclaimtemplates", Namespaced: true,
	Quirks:  resource.Quirks{DeleteReturnsObject: true, MetaNewFirst: true},
	Default: func(t *resourcev1.ResourceClaimTemplate) { defaultClaim(&t.Spec.Spec, nil) },
	Prepare: func(t, old *resourcev1.ResourceClaimTemplate) {
		dropAlpha(t, old, old == nil, func(t *resourcev1.ResourceClaimTemplate) { dropDerived(&t.Spec.Spec) })
	},
	Gated:   resource.Gated[*resourcev1.ResourceClaimTemplate]{Validate: resource.Serving(validateTemplate)},
	Columns: []resource.Column[*resourcev1.ResourceClaimTemplate]{resource.Age[*resourcev1.ResourceClaimTemplate]()},
}

func validateTemplate(on *features.Set, t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	spec := field.NewPath("spec")
	errs := templateMeta(&t.Spec.ObjectMeta, spec.Child("metadata"))
	errs = append(errs, claim(on, &t.Spec.Spec.Devices, spec.Child("spec", "devices"))...)
	if old != nil {
		errs = append(errs, rule.FrozenJSON(t.Spec, old.Spec, spec)...)
	}
	return errs
}

// ResourceSlices declares the kind.
var ResourceSlices = &resource.Def[*resourcev1.ResourceSlice]{
	GVK: gvk("ResourceSlice"), Plural: "resourceslices", Generation: true,
	Quirks: resource.Quirks{MetaUpdateOnly: true, DeleteReturnsObject: true,
		Unselectable: "field label not supported for %[2]s: %[1]s", Unselectable36: []string{resourcev1.ResourceSliceSelectorPoolName}},
	Default: func(s *resourcev1.ResourceSlice) {
		for i := range s.Spec.Devices {
			defaultTaints(s.Spec.Devices[i].Taints)
		}
	},
	Prepare: func(s, old *resourcev1.ResourceSlice) { dropAlpha(s, old, old == nil, dropFromSlice) },
	Warn: resource.Serving(func(s, _ *resourcev1.ResourceSlice) []string {
		if d := s.Spec.Driver; d != strings.ToLower(d) {
			return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", d)}
		}
		return nil
	}),
	Validate: resource.Serving(validateSlice),
	Columns: []resource.Column[*resourcev1.ResourceSlice]{
		resource.Col("Node", "string", func(s *resourcev1.ResourceSlice) any { return nodeName(s) }),
		resource.Col("Driver", "string", func(s *resourcev1.ResourceSlice) any { return s.Spec.Driver }),
		resource.Col("Pool", "string", func(s *resourcev1.ResourceSlice) any { return s.Spec.Pool.Name }),
		resource.Age[*resourcev1.ResourceSlice](),
	},
	Select: []resource.Field[*resourcev1.ResourceSlice]{
		{Label: resourcev1.ResourceSliceSelectorNodeName, Value: nodeName, Index: true},
		{Label: resourcev1.ResourceSliceSelectorDriver, Value: func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver }},
		{Label: resourcev1.ResourceSliceSelectorPoolName, Value: func(s *resourcev1.ResourceSlice) string { return s.Spec.Pool.Name }},
	},
}

// DeviceTaintRules declares the kind.
var DeviceTaintRules = &resource.Def[*resourcev1.DeviceTaintRule]{
	GVK: gvk("DeviceTaintRule"), Plural: "devicetaintrules", Generation: true, Status: true,
	Quirks:         resource.Quirks{NeedsRevision: true, StatusWithoutTable: true, StatusResets: []string{"metadata"}},
	Default:        func(r *resourcev1.DeviceTaintRule) { defaultTaint(&r.Spec.Taint) },
	Prepare:        resource.Serving(prepareTaintRule),
	Validate:       resource.Serving(validateTaintRule),
	ValidateStatus: resource.Serving(validateTaintRuleStatus),
	Columns: []resource.Column[*resourcev1.DeviceTaintRule]{
		resource.Col("Key", "string", func(r *resourcev1.DeviceTaintRule) any { return r.Spec.Taint.Key }),
		resource.Col("Value", "string", func(r *resourcev1.DeviceTaintRule) any { return r.Spec.Taint.Value }),
		resource.Col("Effect", "string", func(r *resourcev1.DeviceTaintRule) any { return string(r.Spec.Taint.Effect) }),
		resource.Col("TimeAdded", "string", func(r *resourcev1.DeviceTaintRule) any {
			if r.Spec.Taint.TimeAdded == nil {
				return ""
			}
			return resource.Since(*r.Spec.Taint.TimeAdded)
		}),
		resource.Age[*resourcev1.DeviceTaintRule](),
	},
}

func validateTaintRuleStatus(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	path := field.NewPath("status", "conditions")
	errs := metavalidation.ValidateConditions(r.Status.Conditions, path)
	if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		errs = append(errs, field.TooMany(path, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	return errs
}

// prepareTaintRule dates a taint anew whose effect changed, unless the update dates it itself.
func prepareTaintRule(r, old *resourcev1.DeviceTaintRule) {
	if old == nil || r.Spec.Taint.Effect == old.Spec.Taint.Effect {
		return
	}
	if r.Spec.Taint.TimeAdded.Equal(old.Spec.Taint.TimeAdded) {
		now := metav1.Now().Rfc3339Copy()
		r.Spec.Taint.TimeAdded = &now
	}
}

// templateMeta lets claims made of a template have labels and annotations, nothing else.
func templateMeta(m *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := validation.ValidateAnnotations(m.Annotations, path.Child("annotations"))
	errs = append(errs, metavalidation.ValidateLabels(m.Labels, path.Child("labels"))...)
	for i, v := 0, reflect.ValueOf(*m); i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		if name == "Annotations" || name == "Labels" || v.Field(i).IsZero() {
			continue
		}
		errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), "cannot be set"))
	}
	return errs
}

func nodeName(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

func state(c *resourcev1.ResourceClaim) string {
	var words []string
	if c.DeletionTimestamp != nil {
		words = append(words, "deleted")
	}
	switch {
	case c.Status.Allocation != nil:
		words = append(words, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			words = append(words, "reserved")
		}
	case c.DeletionTimestamp == nil:
		words = append(words, "pending")
	}
	return strings.Join(words, ",")
}

func defaultClaim(s *resourcev1.ResourceClaimSpec, status *resourcev1.ResourceClaimStatus) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			defaultMode(&r.Exactly.AllocationMode, &r.Exactly.Count, r.Exactly.Tolerations)
		}
		for k := range r.FirstAvailable {
			f := &r.FirstAvailable[k]
			defaultMode(&f.AllocationMode, &f.Count, f.Tolerations)
		}
	}
	if status != nil && status.Allocation != nil {
		for i := range status.Allocation.Devices.Results {
			defaultTolerations(status.Allocation.Devices.Results[i].Tolerations)
		}
	}
}

func defaultMode(mode *resourcev1.DeviceAllocationMode, count *int64, tolerations []resourcev1.DeviceToleration) {
	rule.FillZero(mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount {
		rule.FillZero(count, 1)
	}
	defaultTolerations(tolerations)
}

func defaultTolerations(list []resourcev1.DeviceToleration) {
	for i := range list {
		rule.FillZero(&list[i].Operator, resourcev1.DeviceTolerationOpEqual)
	}
}

func defaultTaints(list []resourcev1.DeviceTaint) {
	for i := range list {
		defaultTaint(&list[i])
	}
}

func defaultTaint(t *resourcev1.DeviceTaint) { rule.Fill(&t.TimeAdded, metav1.Now().Rfc3339Copy()) }

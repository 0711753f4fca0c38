// Package scheduling declares the kind that says which pods matter more than others.
package scheduling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// highestForUsers is the highest value of classes that are not the system's own.
const highestForUsers = 1_000_000_000

// system lists the classes that exist in every cluster.
var system = map[string]int32{"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}

// PriorityClasses declares the kind.
var PriorityClasses = &resource.Def[*schedulingv1.PriorityClass]{
	GVK: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), Plural: "priorityclasses", Short: []string{"pc"},
	Quirks: resource.Quirks{MetaUpdateOnly: true},
	Default: func(c *schedulingv1.PriorityClass) {
		rule.Fill(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
	},
	Prepare: func(c, old *schedulingv1.PriorityClass) {
		if old == nil {
			c.Generation = 1 // and stays: all that matters is immutable
		}
	},
	Validate: resource.Serving(validateClass),
	Columns: []resource.Column[*schedulingv1.PriorityClass]{
		resource.Col("Value", "integer", func(c *schedulingv1.PriorityClass) any { return int64(c.Value) }),
		resource.Col("Global-Default", "boolean", func(c *schedulingv1.PriorityClass) any { return c.GlobalDefault }),
		resource.Age[*schedulingv1.PriorityClass](),
		resource.Col("PreemptionPolicy", "string", func(c *schedulingv1.PriorityClass) any {
			if c.PreemptionPolicy == nil {
				return string(corev1.PreemptLowerPriority)
			}
			return string(*c.PreemptionPolicy)
		}),
	},
}

func validateClass(c, old *schedulingv1.PriorityClass) (errs field.ErrorList) {
	policy := field.NewPath("preemptionPolicy")
	if old != nil {
		if c.Value != old.Value {
			errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
		}
		return append(errs, rule.Frozen(c.PreemptionPolicy, old.PreemptionPolicy, policy)...)
	}
	value, known := system[c.Name]
	switch {
	case strings.HasPrefix(c.Name, "system-"):
		wrong := ""
		switch {
		case !known:
			wrong = c.Name + " is not a known system priority class"
		case value != c.Value:
			wrong = fmt.Sprintf("value of %s PriorityClass must be %d", c.Name, value)
		case c.GlobalDefault:
			wrong = "globalDefault of " + c.Name + " PriorityClass must be false"
		}
		if wrong != "" {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+wrong))
		}
	case c.Value > highestForUsers:
		errs = append(errs, field.Forbidden(field.NewPath("value"), "maximum allowed value of a user defined priority is 1000000000"))
	}
	if c.PreemptionPolicy != nil {
		errs = append(errs, rule.ChosenListed(*c.PreemptionPolicy, policy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
)

// Bindings declares the kind: the old way to write pods/binding.
var Bindings = &resource.Def[*corev1.Binding]{
	GVK: gvk("Binding"), Plural: "bindings", Namespaced: true, Virtual: true,
	Validate: resource.Serving(validateBinding),
}

// ComponentStatuses declares the kind: what the server knows of its own parts.
var ComponentStatuses = &resource.Def[*corev1.ComponentStatus]{
	GVK: gvk("ComponentStatus"), Plural: "componentstatuses", Short: []string{"cs"}, Virtual: true, Verbs: doGetList,
	Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
	Columns: []resource.Column[*corev1.ComponentStatus]{
		resource.Col("Status", "string", func(c *corev1.ComponentStatus) any { return health(c).word }),
		resource.Col("Message", "string", func(c *corev1.ComponentStatus) any { return health(c).message }),
		resource.Col("Error", "string", func(c *corev1.ComponentStatus) any { return health(c).err }),
	},
}

type healthCells struct{ word, message, err string }

func health(c *corev1.ComponentStatus) healthCells {
	h := healthCells{word: "Unknown"}
	for _, cond := range c.Conditions {
		if cond.Type != corev1.ComponentHealthy {
			continue
		}
		h = healthCells{word: "Unhealthy", message: cond.Message, err: cond.Error}
		if cond.Status == corev1.ConditionTrue {
			h.word = "Healthy"
		}
		break
	}
	return h
}

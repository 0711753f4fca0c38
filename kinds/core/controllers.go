package core

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// ReplicationControllers declares the kind.
var ReplicationControllers = &resource.Def[*corev1.ReplicationController]{
	GVK: gvk("ReplicationController"), Plural: "replicationcontrollers", Short: []string{"rc"}, Categories: []string{"all"},
	Quirks:     resource.Quirks{MetaUpdateOnly: true, SkipGenerateNameCheck: true},
	Namespaced: true, Storage: "controllers", Generation: true, OrphanByDefault: true, Status: true,
	Gated: template.Gated(func(c *corev1.ReplicationController) *corev1.PodTemplateSpec { return c.Spec.Template },
		resource.Serving(validateController)),
	Default:        defaultController,
	ValidateStatus: resource.Serving(validateControllerStatus), Warn: resource.Serving(warnController),
	Scale: &resource.Scaled[*corev1.ReplicationController]{
		Get: func(c *corev1.ReplicationController) resource.Scale {
			return resource.Scale{Replicas: wanted(c), Current: c.Status.Replicas,
				Selector: labels.Set(c.Spec.Selector).AsSelectorPreValidated().String()}
		},
		Set: func(c *corev1.ReplicationController, n int32) { c.Spec.Replicas = &n },
	},
	Select: []resource.Field[*corev1.ReplicationController]{
		{Label: "status.replicas", Value: func(c *corev1.ReplicationController) string {
			return strconv.Itoa(int(c.Status.Replicas))
		}},
	},
	Columns: []resource.Column[*corev1.ReplicationController]{
		resource.Col("Desired", "integer", func(c *corev1.ReplicationController) any { return int64(wanted(c)) }),
		resource.Col("Current", "integer", func(c *corev1.ReplicationController) any { return int64(c.Status.Replicas) }),
		resource.Col("Ready", "integer", func(c *corev1.ReplicationController) any { return int64(c.Status.ReadyReplicas) }),
		resource.Age[*corev1.ReplicationController](),
		resource.Wide("Containers", "string", func(c *corev1.ReplicationController) any { return cell.Names(templateOf(c)) }),
		resource.Wide("Images", "string", func(c *corev1.ReplicationController) any { return cell.Images(templateOf(c)) }),
		resource.Wide("Selector", "string", func(c *corev1.ReplicationController) any { return cell.Labels(c.Spec.Selector) }),
	},
}

func wanted(c *corev1.ReplicationController) int32 {
	if c.Spec.Replicas == nil {
		return 0
	}
	return *c.Spec.Replicas
}

func templateOf(c *corev1.ReplicationController) *corev1.PodTemplateSpec {
	if c.Spec.Template == nil {
		return &corev1.PodTemplateSpec{}
	}
	return c.Spec.Template
}

// defaultController takes selector and labels from the template's labels.
func defaultController(c *corev1.ReplicationController) {
	rule.Fill(&c.Spec.Replicas, 1)
	if c.Spec.Template == nil {
		return
	}
	if l := c.Spec.Template.Labels; l != nil {
		if len(c.Spec.Selector) == 0 {
			c.Spec.Selector = maps.Clone(l)
		}
		if len(c.Labels) == 0 {
			c.Labels = maps.Clone(l)
		}
	}
	podspec.DefaultTemplate(c.Spec.Template)
}

// PodTemplates declares the kind.
var PodTemplates = &resource.Def[*corev1.PodTemplate]{
	GVK: gvk("PodTemplate"), Plural: "podtemplates", Namespaced: true, Generation: true,
	Quirks:  resource.Quirks{MetaUpdateOnly: true, DeleteReturnsObject: true},
	Default: func(t *corev1.PodTemplate) { podspec.DefaultTemplate(&t.Template) },
	Gated: template.Gated(func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template },
		resource.Serving(validatePodTemplate)),
	Warn: resource.Serving(warnPodTemplate),
	Columns: []resource.Column[*corev1.PodTemplate]{
		resource.Col("Containers", "string", func(t *corev1.PodTemplate) any { return cell.Names(&t.Template) }),
		resource.Col("Images", "string", func(t *corev1.PodTemplate) any { return cell.Images(&t.Template) }),
		resource.Col("Pod Labels", "string", func(t *corev1.PodTemplate) any { return cell.Labels(t.Template.Labels) }),
	},
}

package pods

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// ReplicationControllers completes the kind.
var ReplicationControllers = resource.Complete(core.ReplicationControllers, func(d *resource.Def[*corev1.ReplicationController]) {
	d.Quirks = resource.Quirks{MetaUpdateOnly: true, SkipGenerateNameCheck: true,
		Declared: []string{"Invalid metadata.name", "Invalid spec.replicas", "Invalid spec.minReadySeconds"}}
	d.Generation = true
	d.OrphanByDefault = true
	d.Gated = template.Gated(func(c *corev1.ReplicationController) *corev1.PodTemplateSpec { return c.Spec.Template },
		resource.Serving(validateController))
	d.Default = defaultController
	d.ValidateStatus = resource.Serving(validateControllerStatus)
	d.Warn = resource.Serving(warnController)
	d.Scale = &resource.Scaled[*corev1.ReplicationController]{
		Get: func(c *corev1.ReplicationController) resource.Scale {
			return resource.Scale{Replicas: wanted(c), Current: c.Status.Replicas,
				Selector: labels.Set(c.Spec.Selector).AsSelectorPreValidated().String()}
		},
		Set: func(c *corev1.ReplicationController, n int32) { c.Spec.Replicas = &n },
	}
	d.Columns = []resource.Column[*corev1.ReplicationController]{
		resource.Col("Desired", "integer", func(c *corev1.ReplicationController) any { return int64(wanted(c)) }),
		resource.Col("Current", "integer", func(c *corev1.ReplicationController) any { return int64(c.Status.Replicas) }),
		resource.Col("Ready", "integer", func(c *corev1.ReplicationController) any { return int64(c.Status.ReadyReplicas) }),
		resource.Age[*corev1.ReplicationController](),
		resource.Wide("Containers", "string", func(c *corev1.ReplicationController) any { return cell.Names(templateOf(c)) }),
		resource.Wide("Images", "string", func(c *corev1.ReplicationController) any { return cell.Images(templateOf(c)) }),
		resource.Wide("Selector", "string", func(c *corev1.ReplicationController) any { return cell.Labels(c.Spec.Selector) }),
	}
})

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

// PodTemplates completes the kind.
var PodTemplates = resource.Complete(core.PodTemplates, func(d *resource.Def[*corev1.PodTemplate]) {
	d.Generation = true
	d.Quirks = resource.Quirks{MetaUpdateOnly: true, DeleteReturnsObject: true}
	d.Default = func(t *corev1.PodTemplate) { podspec.DefaultTemplate(&t.Template) }
	d.Gated = template.Gated(func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template },
		resource.Serving(validatePodTemplate))
	d.Warn = resource.Serving(warnPodTemplate)
	d.Columns = []resource.Column[*corev1.PodTemplate]{
		resource.Col("Containers", "string", func(t *corev1.PodTemplate) any { return cell.Names(&t.Template) }),
		resource.Col("Images", "string", func(t *corev1.PodTemplate) any { return cell.Images(&t.Template) }),
		resource.Col("Pod Labels", "string", func(t *corev1.PodTemplate) any { return cell.Labels(t.Template.Labels) }),
	}
})

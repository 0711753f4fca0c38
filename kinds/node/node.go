// Package node declares the kind that names container runtimes.
package node

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// RuntimeClasses declares the kind.
var RuntimeClasses = &resource.Def[*nodev1.RuntimeClass]{
	GVK: nodev1.SchemeGroupVersion.WithKind("RuntimeClass"), Plural: "runtimeclasses", CreateOnUpdate: true,
	Gated: resource.Gated[*nodev1.RuntimeClass]{Validate: resource.Serving(validateClass)},
	Quirks: resource.Quirks{NeedsRevision: true, UnqualifiedFinalizers: true,
		Declared: []string{"Required handler", "Invalid handler"}},
	Default: func(c *nodev1.RuntimeClass) {
		if c.Overhead != nil {
			podspec.RoundResources(c.Overhead.PodFixed)
		}
	},
	Warn: resource.Serving(func(c, _ *nodev1.RuntimeClass) (list []string) {
		if c.Scheduling == nil {
			return nil
		}
		for key := range c.Scheduling.NodeSelector {
			list = append(list, podspec.LabelWarnings(key, field.NewPath("scheduling", "nodeSelector"))...)
		}
		return list
	}),
	Columns: []resource.Column[*nodev1.RuntimeClass]{
		resource.Col("Handler", "string", func(c *nodev1.RuntimeClass) any { return c.Handler }),
		resource.Age[*nodev1.RuntimeClass](),
	},
}

func validateClass(on *features.Set, c, old *nodev1.RuntimeClass) (errs field.ErrorList) {
	handler := field.NewPath("handler")
	if old != nil {
		for _, e := range rule.Frozen(c.Handler, old.Handler, handler) { // since 1.37 without a value
			if on.AtLeast(37) {
				e.BadValue = nil
			}
			errs = append(errs, e)
		}
	}
	says := rule.NeededFormat(c.Handler, handler, rule.Label)
	for _, e := range says {
		if on.AtLeast(37) {
			e.Detail = strings.Replace(e.Detail, "63 characters", "63 bytes", 1)
		}
	}
	errs = append(errs, says...)
	if c.Overhead != nil {
		errs = append(errs, podspec.ValidateOverhead(c.Overhead.PodFixed, field.NewPath("overhead"))...)
	}
	if s := c.Scheduling; s != nil {
		path := field.NewPath("scheduling")
		errs = append(errs, metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
		errs = append(errs, tolerations(s.Tolerations, path.Child("tolerations"))...)
	}
	return errs
}

// tolerations refuses repeated ones: they are added to those of pods.
func tolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	errs := podspec.ValidateTolerations(list, path)
	for i, t := range list {
		for _, b := range list[:i] {
			if t.Key == b.Key && t.Operator == b.Operator && t.Value == b.Value && t.Effect == b.Effect {
				errs = append(errs, field.Duplicate(path.Index(i), rule.Internal(t)))
				break
			}
		}
	}
	return errs
}

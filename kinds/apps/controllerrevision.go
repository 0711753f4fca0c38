package apps

import (
	"bytes"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// ControllerRevisions declares the kind.
var ControllerRevisions = &resource.Def[*appsv1.ControllerRevision]{
	GVK: gvk("ControllerRevision"), Plural: "controllerrevisions", Namespaced: true,
	Validate: resource.Serving(validateControllerRevision),
	Columns: []resource.Column[*appsv1.ControllerRevision]{
		resource.Col("Controller", "string", func(r *appsv1.ControllerRevision) any { return controller(r) }),
		resource.Col("Revision", "string", func(r *appsv1.ControllerRevision) any { return r.Revision }),
		resource.Age[*appsv1.ControllerRevision](),
	},
}

// controller prints the owner that a revision belongs to: statefulset.apps/web.
func controller(r *appsv1.ControllerRevision) string {
	c := metav1.GetControllerOfNoCopy(r)
	if c == nil {
		return cell.None
	}
	gv, err := schema.ParseGroupVersion(c.APIVersion)
	if err != nil {
		return cell.None
	}
	return strings.ToLower(schema.GroupKind{Group: gv.Group, Kind: c.Kind}.String()) + "/" + c.Name
}

// validateControllerRevision keeps the data as it is for ever: DaemonSets and StatefulSets find by comparing it byte for byte whether a
// template was there before. Revision numbers alone change.
func validateControllerRevision(r, old *appsv1.ControllerRevision) (errs field.ErrorList) {
	if data := bytes.TrimSpace(r.Data.Raw); old == nil {
		switch {
		case len(data) == 0 || string(data) == "null":
			errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
		case data[0] != '{':
			errs = append(errs, field.Required(field.NewPath("data"), "data must be a valid JSON object"))
		}
	}
	errs = append(errs, rule.AtLeast(r.Revision, 0, field.NewPath("revision"))...)
	if old != nil {
		errs = append(errs, rule.Frozen(r.Data, old.Data, field.NewPath("data"))...)
	}
	return errs
}

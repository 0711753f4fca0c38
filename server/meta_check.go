package server

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

var metadataPath = field.NewPath("metadata")

// checkMeta validates metadata; old is nil for a new object.
func (s *Server) checkMeta(r *Request, obj, old resource.Object) field.ErrorList {
	errs := s.asTold(r, validation.ValidateObjectMetaAccessor(light(obj), r.Kind.Info().Namespaced, r.checkName, metadataPath))
	if old != nil {
		fixed := s.asTold(r, validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath))
		if errs = append(errs, fixed...); !checksMetaOnce[r.Kind.Info().GR()] && !r.oldEvents() {
			errs = append(errs, fixed...)
		}
	}
	return append(errs, checkFinalizers(r, obj, old)...)
}

// nameOnly are the kinds that tell of a bad generateName by the name that was made of it.
var nameOnly = map[schema.GroupResource]bool{
	{Resource: "replicationcontrollers"}:                  true,
	{Group: "resource.k8s.io", Resource: "deviceclasses"}: true,
}

const generateNamePath, ownersPath = "metadata.generateName", "metadata.ownerReferences"

// asTold turns the library's findings about metadata into those that clients are told.
//
// Up to 1.36 a bad owner reference was told of without its place in the list, and what it lacks as invalid.
func (s *Server) asTold(r *Request, errs field.ErrorList) field.ErrorList {
	told := errs[:0]
	for _, e := range errs {
		if e.Field == generateNamePath && nameOnly[r.Kind.Info().GR()] {
			continue
		}
		if s.Kinds.Features().AtLeast(37) {
			told = append(told, e)
			continue
		}
		if rest, owner := strings.CutPrefix(e.Field, ownersPath+"["); owner {
			_, rest, _ = strings.Cut(rest, "]")
			e.Field = ownersPath + rest
			if e.Type == field.ErrorTypeRequired {
				e.Type, e.BadValue = field.ErrorTypeInvalid, ""
			}
		}
		told = append(told, e)
	}
	return told
}

// light is an object whose managedFields come without the fields, which no rule looks at and which trees make anew
// whenever they are asked.
func light(obj resource.Object) metav1.Object {
	tree, ok := content(obj)
	if !ok {
		return obj
	}
	meta, _ := tree["metadata"].(map[string]any)
	list, ok := meta["managedFields"].([]any)
	if !ok {
		return obj
	}
	return fieldless{obj, list}
}

type fieldless struct {
	metav1.Object
	entries []any
}

// GetManagedFields implements metav1.Object.
func (f fieldless) GetManagedFields() []metav1.ManagedFieldsEntry {
	out := make([]metav1.ManagedFieldsEntry, len(f.entries))
	for i, e := range f.entries {
		m, _ := e.(map[string]any)
		text := func(name string) string { s, _ := m[name].(string); return s }
		out[i] = metav1.ManagedFieldsEntry{Manager: text("manager"), Operation: metav1.ManagedFieldsOperationType(text("operation")),
			APIVersion: text("apiVersion"), FieldsType: text("fieldsType"), Subresource: text("subresource")}
	}
	return out
}

// checksMetaOnce are the kinds that do not tell of a changed uid or the like twice, as upstream's other kinds do:
// there both the generic rules and the kind's own look.
var checksMetaOnce = map[schema.GroupResource]bool{
	{Resource: "limitranges"}:       true,
	{Resource: "persistentvolumes"}: true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   true,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                                true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}:       true,
	{Group: "policy", Resource: "poddisruptionbudgets"}:                                    true,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                                        true,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:                               true,
}

// checkFinalizers demands that the finalizers of built-in kinds name a domain.
func checkFinalizers(r *Request, obj, old resource.Object) (errs field.ErrorList) {
	switch i := r.Kind.Info(); {
	case len(obj.GetFinalizers()) == 0, i.Custom, r.oldEvents(), i.GVK.Group == "apiregistration.k8s.io",
		i.GVK.Group == "apiextensions.k8s.io", i.GVK.Group == "admissionregistration.k8s.io", i.GVK.Group == "policy":
		return nil
	}
	for i, f := range obj.GetFinalizers() {
		switch {
		case strings.Contains(f, "/"), f == metav1.FinalizerOrphanDependents, f == metav1.FinalizerDeleteDependents, f == "kubernetes":
		case old != nil && slices.Contains(old.GetFinalizers(), f):
		default:
			errs = append(errs, field.Invalid(metadataPath.Child("finalizers").Index(i), f,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

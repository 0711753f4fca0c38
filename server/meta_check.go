package server

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

var metadataPath = field.NewPath("metadata")

// checkMeta validates metadata; old is nil for a new object.
func (s rules) checkMeta(r *Request, obj, old resource.Object) field.ErrorList {
	whole := s.asTold(r, validation.ValidateObjectMetaAccessor(light(obj), r.Kind.Info().Namespaced, s.nameCheck(r), metadataPath))
	errs := slices.Clone(whole)
	i := r.Kind.Info()
	if old != nil || i.SkipGenerateNameCheck {
		// The generic rules want of generateName no more than that it can stand in a path.
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Field == generateNamePath })
		errs = append(generateNameInPath(obj), errs...)
	}
	updateOnly := i.MetaUpdateOnly || i.MetaUpdateOnly37 && s.Kinds.Features().AtLeast(37)
	likeNew := old != nil && !i.Custom && !updateOnly && !s.oldMeta(r) && asNew(r) // the kinds' rules for updates have those of new ones
	newFirst := likeNew && i.MetaNewFirst
	var fixed, again field.ErrorList
	if old != nil {
		if len(whole) > 0 || !keepsMeta(obj, old) {
			fixed = s.asTold(r, validation.ValidateObjectMetaAccessorUpdate(obj, old, metadataPath))
		}
		once := i.MetaErrorsOnce && (!i.MetaErrorsAgain || r.Sub != "status") || unchecked(r)
		if errs = append(errs, fixed...); !once && !s.oldMeta(r) {
			again = fixed
		}
	}
	if !newFirst {
		errs = append(errs, again...)
	}
	qualified := s.checkFinalizers(r, obj, old)
	if old != nil && i.MetaErrorsAgain && r.Sub == "" {
		errs = slices.Concat(errs, whole, qualified)
	}
	if newFirst {
		errs = append(errs, whole...)
	}
	if likeNew && !i.MetaErrorsOnce {
		errs = append(errs, qualified...)
	}
	switch {
	case newFirst:
		errs = append(errs, again...)
	case likeNew:
		errs = append(errs, whole...)
	}
	return append(errs, qualified...)
}

// keepsMeta says that the rules for updates have nothing to say of metadata that the rules for new objects say nothing of. The library
// makes a path for each of them first.
func keepsMeta(obj, old metav1.Object) bool {
	before, after := old.GetDeletionGracePeriodSeconds(), obj.GetDeletionGracePeriodSeconds()
	return old.GetDeletionTimestamp() == nil && obj.GetDeletionTimestamp() == nil && before == nil && after == nil &&
		obj.GetResourceVersion() != "" && obj.GetGeneration() >= old.GetGeneration() &&
		obj.GetName() == old.GetName() && obj.GetNamespace() == old.GetNamespace() && obj.GetUID() == old.GetUID() &&
		obj.GetCreationTimestamp().UTC() == old.GetCreationTimestamp().UTC()
}

// generateNameInPath wants of generateName what the generic rules do: that a name made of it can stand in a path.
func generateNameInPath(obj resource.Object) (errs field.ErrorList) {
	for _, bad := range path.IsValidPathSegmentPrefix(obj.GetGenerateName()) {
		errs = append(errs, field.Invalid(metadataPath.Child("generateName"), obj.GetGenerateName(), bad))
	}
	return errs
}

// asNew says that what is written is held to the rules for new objects, too.
func asNew(r *Request) bool {
	switch i := r.Kind.Info(); r.Sub {
	case "":
		return true
	case "status":
		return i.StatusAsNew
	default:
		return i.PartsAsNew
	}
}

// unchecked says that the kind has no rules of its own for what is written.
func unchecked(r *Request) bool { return r.Kind.Info().StatusUnchecked && r.Sub == "status" }

// nameCheck is the rule for names in the version that the caller speaks.
func (s rules) nameCheck(r *Request) func(name string, prefix bool) []string {
	if check := s.extension(r.Kind).CheckName; check != nil {
		return func(name string, prefix bool) []string { return check(r, name, prefix) }
	}
	return func(name string, prefix bool) []string { return resource.CheckName(r.Kind, name, prefix) }
}

const generateNamePath = "metadata.generateName"

// asTold turns the library's findings about metadata into those that clients get.
func (s rules) asTold(r *Request, errs field.ErrorList) field.ErrorList {
	told := errs[:0]
	for _, e := range errs {
		if e.Field == generateNamePath && r.Kind.Info().SkipGenerateNameCheck {
			continue
		}
		if !s.Kinds.Features().AtLeast(37) {
			resource.MetaBefore37(e)
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

// checkFinalizers demands that the finalizers of built-in kinds name a domain.
func (s rules) checkFinalizers(r *Request, obj, old resource.Object) (errs field.ErrorList) {
	switch i := r.Kind.Info(); {
	case len(obj.GetFinalizers()) == 0, i.Custom, i.UnqualifiedFinalizers, unchecked(r), s.oldMeta(r):
		return nil
	}
	for i, f := range obj.GetFinalizers() {
		if !qualifiedFinalizer(f) && (old == nil || !slices.Contains(old.GetFinalizers(), f)) {
			errs = append(errs, unqualified(i, f))
		}
	}
	return errs
}

func qualifiedFinalizer(f string) bool {
	return strings.Contains(f, "/") || f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents || f == "kubernetes"
}

func unqualified(i int, f string) *field.Error {
	return field.Invalid(metadataPath.Child("finalizers").Index(i), f, "name is neither a standard finalizer name nor is it fully qualified")
}

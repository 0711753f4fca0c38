// Package authorization declares the reviews that say who may do what. None is ever stored.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// SubjectAccessReviews declares the kind: may this user do that?
var SubjectAccessReviews = &resource.Def[*authorizationv1.SubjectAccessReview]{
	GVK: authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), Plural: "subjectaccessreviews", Virtual: true,
	Gated: resource.Gated[*authorizationv1.SubjectAccessReview]{Validate: resource.Serving(validateSubject)},
}

// LocalSubjectAccessReviews declares the kind: the same, asked within a namespace.
var LocalSubjectAccessReviews = &resource.Def[*authorizationv1.LocalSubjectAccessReview]{
	GVK: authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"), Plural: "localsubjectaccessreviews", Virtual: true,
	Namespaced: true, Gated: resource.Gated[*authorizationv1.LocalSubjectAccessReview]{Validate: resource.Serving(validateLocal)},
}

// SelfSubjectAccessReviews declares the kind: may I do that?
var SelfSubjectAccessReviews = &resource.Def[*authorizationv1.SelfSubjectAccessReview]{
	GVK: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), Plural: "selfsubjectaccessreviews", Virtual: true,
	Gated: resource.Gated[*authorizationv1.SelfSubjectAccessReview]{Validate: resource.Serving(validateSelf)},
}

// SelfSubjectRulesReviews declares the kind: what may I do here?
var SelfSubjectRulesReviews = &resource.Def[*authorizationv1.SelfSubjectRulesReview]{
	GVK: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"), Plural: "selfsubjectrulesreviews", Virtual: true,
}

// bare refuses metadata: a question has none.
func bare(m metav1.ObjectMeta, says string) field.ErrorList {
	if m.ManagedFields = nil; equality.Semantic.DeepEqual(m, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, says)}
}

func validateSubject(on *features.Set, r, _ *authorizationv1.SubjectAccessReview) field.ErrorList {
	return append(subject(on, r.Spec), bare(r.ObjectMeta, "must be empty")...)
}

func validateSelf(on *features.Set, r, _ *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	return append(attributes(on, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes), bare(r.ObjectMeta, "must be empty")...)
}

func validateLocal(on *features.Set, r, _ *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs, spec, meta := subject(on, r.Spec), field.NewPath("spec"), r.ObjectMeta
	meta.Namespace = ""
	errs = append(errs, bare(meta, "must be empty except for namespace")...)
	if r.Spec.ResourceAttributes != nil && r.Spec.ResourceAttributes.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes", "namespace"), r.Spec.ResourceAttributes.Namespace,
			"must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), r.Spec.NonResourceAttributes,
			"disallowed on this kind of request"))
	}
	return errs
}

func subject(on *features.Set, s authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := attributes(on, s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), s.User, "at least one of user or group must be specified"))
	}
	return errs
}

const onlyOne = "exactly one of nonResourceAttributes or resourceAttributes must be specified"

func attributes(on *features.Set, r *authorizationv1.ResourceAttributes,
	n *authorizationv1.NonResourceAttributes) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	switch {
	case on.AtLeast(37) && (r == nil) == (n == nil): // up to 1.36 one of the two is to blame
		errs = append(errs, field.Invalid(spec, n, onlyOne))
	case r != nil && n != nil:
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), n, "cannot be specified in combination with resourceAttributes"))
	case r == nil && n == nil:
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes"), r, onlyOne))
	}
	if r != nil {
		errs = append(errs, selectors(r, spec.Child("resourceAttributes"))...)
	}
	return errs
}

// selectors checks that a restriction is given either as text or as requirements, and that these make sense. Newer clients
// may know operators that this server does not: these restrict nothing.
func selectors(r *authorizationv1.ResourceAttributes, path *field.Path) (errs field.ErrorList) {
	both := "may not be specified together with rawSelector"
	if s := r.FieldSelector; s != nil {
		at := path.Child("fieldSelector")
		switch {
		case s.RawSelector != "" && len(s.Requirements) > 0:
			errs = append(errs, field.Invalid(at.Child("rawSelector"), s.RawSelector, both))
		case s.RawSelector == "" && len(s.Requirements) == 0:
			errs = append(errs, field.Required(at.Child("requirements"), "when fieldSelector is specified, requirements or rawSelector is required"))
		}
		for i, q := range s.Requirements {
			errs = append(errs, metavalidation.ValidateFieldSelectorRequirement(q,
				metavalidation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	if s := r.LabelSelector; s != nil {
		at := path.Child("labelSelector")
		switch {
		case s.RawSelector != "" && len(s.Requirements) > 0:
			errs = append(errs, field.Invalid(at.Child("rawSelector"), s.RawSelector, both))
		case s.RawSelector == "" && len(s.Requirements) == 0:
			errs = append(errs, field.Required(at.Child("requirements"), "when labelSelector is specified, requirements or rawSelector is required"))
		}
		for i, q := range s.Requirements {
			errs = append(errs, metavalidation.ValidateLabelSelectorRequirement(q,
				metavalidation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

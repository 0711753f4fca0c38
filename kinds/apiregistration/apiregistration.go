// Package apiregistration declares the kind that says who serves a group and version: this server or another.
package apiregistration

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// The highest priorities.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

// APIServices declares the kind.
var APIServices = &resource.Def[*apiregistrationv1.APIService]{
	GVK: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"), Plural: "apiservices", Categories: []string{"api-extensions"},
	Quirks: resource.Quirks{NeedsRevision: true, KeepsEmpty: true, UnqualifiedFinalizers: true, ErrorsRepeat: true, StatusWithoutTable: true,
		StatusResets: []string{"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences"}},
	Storage: "apiregistration.k8s.io/apiservices", Name: rule.PathSegment, Status: true,
	Default: func(a *apiregistrationv1.APIService) {
		if a.Spec.Service != nil {
			rule.Fill(&a.Spec.Service.Port, 443)
		}
	},
	Prepare: resource.Serving(prepareService), Validate: resource.Serving(validateService),
	ValidateStatus: resource.Serving(validateServiceStatus),
	Columns: []resource.Column[*apiregistrationv1.APIService]{
		resource.Col("Service", "string", func(a *apiregistrationv1.APIService) any {
			if a.Spec.Service == nil {
				return "Local"
			}
			return a.Spec.Service.Namespace + "/" + a.Spec.Service.Name
		}),
		resource.Col("Available", "string", func(a *apiregistrationv1.APIService) any { return available(a) }),
		resource.Age[*apiregistrationv1.APIService](),
	},
}

// available is the column AVAILABLE. The reason is shown only of what is not well.
func available(a *apiregistrationv1.APIService) string {
	for _, c := range a.Status.Conditions {
		switch {
		case c.Type != apiregistrationv1.Available:
		case c.Status == apiregistrationv1.ConditionTrue || c.Reason == "":
			return string(c.Status)
		default:
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
	}
	return "Unknown"
}

// prepareService says at once of what this server serves itself that it is available.
func prepareService(a, old *apiregistrationv1.APIService) {
	if old == nil && a.Spec.Service == nil {
		a.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue,
			LastTransitionTime: metav1.Now().Rfc3339Copy(), Reason: "Local", Message: "Local APIServices are always available"}}
	}
}

// validateService holds the name to the group and version that it registers, so that there is one APIService for each. The priorities
// decide in which order discovery lists groups, and which version kubectl prefers.
func validateService(a, _ *apiregistrationv1.APIService) (errs field.ErrorList) {
	s, spec := &a.Spec, field.NewPath("spec")
	errs = append(errs, rule.FixedName(a, s.Version+"."+s.Group, rule.PathSegment)...)
	switch {
	case s.Group == "" && s.Version != "v1":
		errs = append(errs, field.Required(spec.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	case s.Group != "":
		errs = append(errs, rule.Format(s.Group, spec.Child("group"), rule.Subdomain)...)
	}
	errs = append(errs, rule.Format(s.Version, spec.Child("version"), validation.IsDNS1035Label)...)
	if s.GroupPriorityMinimum <= 0 || s.GroupPriorityMinimum > maxGroupPriority {
		errs = append(errs, field.Invalid(spec.Child("groupPriorityMinimum"), s.GroupPriorityMinimum, "must be positive and less than 20000"))
	}
	if s.VersionPriority <= 0 || s.VersionPriority > maxVersionPriority {
		errs = append(errs, field.Invalid(spec.Child("versionPriority"), s.VersionPriority, "must be positive and less than 1000"))
	}
	return append(errs, target(s, spec)...)
}

// target is the Service behind the APIService; none: this server answers itself, and there is nobody whose certificate could be checked.
func target(s *apiregistrationv1.APIServiceSpec, spec *field.Path) (errs field.ErrorList) {
	if s.Service == nil {
		if len(s.CABundle) != 0 {
			errs = append(errs, field.Invalid(spec.Child("caBundle"), fmt.Sprintf("%d bytes", len(s.CABundle)),
				"local APIServices may not have a caBundle"))
		}
		if s.InsecureSkipTLSVerify {
			errs = append(errs, field.Invalid(spec.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return errs
	}
	errs = rule.WebhookService(s.Service.Namespace, s.Service.Name, nil, s.Service.Port, spec.Child("service"))
	if s.InsecureSkipTLSVerify && len(s.CABundle) > 0 {
		errs = append(errs, field.Invalid(spec.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateServiceStatus(a, _ *apiregistrationv1.APIService) (errs field.ErrorList) {
	path := field.NewPath("status", "conditions")
	for i, c := range a.Status.Conditions {
		errs = append(errs, rule.Among(corev1.ConditionStatus(c.Status), path.Index(i).Child("status"),
			corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)...)
	}
	return errs
}

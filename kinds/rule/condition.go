package rule

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// Conditions checks conditions of the common type. Since 1.37 a type or a status that is missing is required; before, it was as bad as any
// other that is none, and a type that is there twice was told by its own path.
func Conditions(on *features.Set, list []metav1.Condition, path *field.Path) field.ErrorList {
	errs := metavalidation.ValidateConditions(list, path)
	if on.AtLeast(37) {
		return errs
	}
	missing := map[string]field.ErrorList{}
	for i, c := range list {
		if at := path.Index(i).Child("type"); c.Type == "" {
			missing[at.String()] = metavalidation.ValidateLabelName(c.Type, at)
		}
		if at := path.Index(i).Child("status"); c.Status == "" {
			missing[at.String()] = field.ErrorList{field.NotSupported(at, c.Status,
				[]metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown})}
		}
	}
	var told field.ErrorList
	for _, e := range errs {
		if older := missing[e.Field]; older != nil && e.Type == field.ErrorTypeRequired {
			told = append(told, older...)
			continue
		}
		if e.Type == field.ErrorTypeDuplicate {
			e.Field += ".type"
		}
		told = append(told, e)
	}
	return told
}

package rule

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FixedName says that an object must have a name made of its fields. Names that the general check refuses are
// left to it.
func FixedName(o metav1.Object, want string, general func(name string, prefix bool) []string) (errs field.ErrorList) {
	says := "must be " + want
	if g := o.GetGenerateName(); g != "" && len(general(g, true)) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "generateName"), g, says))
	}
	if n := o.GetName(); n != "" && n != want && len(general(n, false)) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), n, says))
	}
	return errs
}

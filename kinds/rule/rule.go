// Package rule holds the small rules of which validation and defaulting of most kinds are made.
// Every check returns upstream's error types and leaves the field path to its caller.
package rule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// Fill sets *p to v when it is nil.
func Fill[T any](p **T, v T) {
	if *p == nil {
		*p = new(v)
	}
}

// FillZero sets *p to v when it is the zero value.
func FillZero[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// NoneIfEmpty returns nil for an empty list: what is stored as protobuf cannot tell the two apart.
func NoneIfEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Frozen says that a field may not change.
func Frozen(obj, old any, path *field.Path) field.ErrorList {
	return validation.ValidateImmutableField(obj, old, path)
}

// FrozenJSON is Frozen for fields that hold raw JSON: order and white space in it do not count, as a patch
// changes them.
func FrozenJSON(obj, old any, path *field.Path) field.ErrorList {
	errs := Frozen(obj, old, path)
	if len(errs) > 0 && reflect.DeepEqual(plain(obj), plain(old)) {
		return nil
	}
	return errs
}

// plain returns a value as maps and lists; one that cannot be JSON equals nothing.
func plain(v any) (tree any) {
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &tree) != nil {
		return &v
	}
	return tree
}

// Needed asks for a value.
func Needed[T comparable](v T, path *field.Path) field.ErrorList {
	var zero T
	if v == zero {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// AtLeast sets a lower bound.
func AtLeast[T cmp.Ordered](v, low T, path *field.Path) field.ErrorList {
	if v < low {
		return field.ErrorList{field.Invalid(path, v, fmt.Sprintf("must be greater than or equal to %v", low))}
	}
	return nil
}

// AtLeastPtr sets a lower bound for a value that may be unset.
func AtLeastPtr[T cmp.Ordered](v *T, low T, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	return AtLeast(*v, low, path)
}

// Within sets both bounds.
func Within[T cmp.Ordered](v, low, high T, path *field.Path) field.ErrorList {
	if v < low || v > high {
		return field.ErrorList{field.Invalid(path, v, fmt.Sprintf("must be between %v and %v, inclusive", low, high))}
	}
	return nil
}

// Among asks for one of the allowed values; an empty value is one of the wrong ones.
func Among[T ~string](v T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, v) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, v, slices.Sorted(slices.Values(allowed)))}
}

// Listed is Among with the allowed values told in the order given, as upstream tells those that it keeps in lists.
func Listed[T ~string](v T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, v) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, v, allowed)}
}

// ChosenListed is Chosen with the allowed values told in the order given.
func ChosenListed[T ~string](v T, path *field.Path, allowed ...T) field.ErrorList {
	if v == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return Listed(v, path, allowed...)
}

// Chosen asks for one of the allowed values and says "required" of an empty one.
func Chosen[T ~string](v T, path *field.Path, allowed ...T) field.ErrorList {
	if v == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return Among(v, path, allowed...)
}

// AmongPtr asks for one of the allowed values, or none.
func AmongPtr[T ~string](v *T, path *field.Path, allowed ...T) field.ErrorList {
	if v == nil {
		return nil
	}
	return Among(*v, path, allowed...)
}

// Says turns the complaints of a format check into errors.
func Says(complaints []string, v any, path *field.Path) (errs field.ErrorList) {
	for _, c := range complaints {
		errs = append(errs, field.Invalid(path, v, c))
	}
	return errs
}

// Format applies a format check to a string.
func Format(v string, path *field.Path, check func(string) []string) field.ErrorList {
	says := check(v)
	if len(says) == 0 {
		return nil // before v is wrapped for an error that there is not
	}
	return Says(says, v, path)
}

// NeededFormat applies a format check to a string and says "required" of an empty one.
func NeededFormat(v string, path *field.Path, check func(string) []string) field.ErrorList {
	if v == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return Format(v, path, check)
}

// Subdomain is the format of most object names.
func Subdomain(v string) []string {
	if resource.IsLabel(v) {
		return nil
	}
	return utilvalidation.IsDNS1123Subdomain(v)
}

// Label is the format of namespace names.
func Label(v string) []string {
	if resource.IsLabel(v) {
		return nil
	}
	return utilvalidation.IsDNS1123Label(v)
}

// PathSegment is the format of names that only have to fit into a URL: those of RBAC.
func PathSegment(v string, _ bool) []string {
	switch {
	case v == "." || v == "..":
		return []string{"may not be '" + v + "'"}
	default:
		return noPathSeparators(v)
	}
}

// Unchecked is the format of names that no rule of their kind looks at: they, or what they begin with, only have to fit into a URL.
func Unchecked(v string, prefix bool) []string {
	if prefix {
		return noPathSeparators(v)
	}
	return PathSegment(v, false)
}

func noPathSeparators(v string) (says []string) {
	for _, bad := range []rune{'/', '%'} {
		if slices.Contains([]rune(v), bad) {
			says = append(says, fmt.Sprintf("may not contain '%c'", bad))
		}
	}
	return says
}

// LabelName judges object names that must be DNS labels.
func LabelName(v string, prefix bool) []string {
	if resource.IsLabel(v) {
		return nil
	}
	return validation.NameIsDNSLabel(v, prefix)
}

// Selector checks a label selector as current kinds do.
func Selector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, path)
}

// SelectorAsBefore checks a label selector, forgiving bad values when the stored one had bad values too.
func SelectorAsBefore(s, old *metav1.LabelSelector, path *field.Path) field.ErrorList {
	o := metavalidation.LabelSelectorValidationOptions{}
	if old != nil {
		o.AllowInvalidLabelValueInSelector = len(metavalidation.ValidateLabelSelector(old, o, path)) > 0
	}
	return metavalidation.ValidateLabelSelector(s, o, path)
}

// EmptySelector reports whether a selector names nothing.
func EmptySelector(s *metav1.LabelSelector) bool {
	return len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// Duplicates reports each value that occurred before in the list.
func Duplicates[T comparable](list []T, at func(i int) *field.Path) (errs field.ErrorList) {
	seen := sets.New[T]()
	for i, v := range list {
		if seen.Has(v) {
			errs = append(errs, field.Duplicate(at(i), v))
		}
		seen.Insert(v)
	}
	return errs
}

// CountOrPercent checks a number of pods, given absolutely or as a percentage.
func CountOrPercent(v intstr.IntOrString, path *field.Path) (errs field.ErrorList) {
	switch v.Type {
	case intstr.String:
		return Says(utilvalidation.IsValidPercent(v.StrVal), v, path)
	case intstr.Int:
		return AtLeast(v.IntVal, 0, path)
	}
	return field.ErrorList{field.Invalid(path, v, "must be an integer or percentage (e.g '5%')")}
}

// AtMostAll refuses percentages over 100.
func AtMostAll(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if p, ok := Percent(v); ok && p > 100 {
		return field.ErrorList{field.Invalid(path, v, "must not be greater than 100%")}
	}
	return nil
}

// Percent reads a percentage.
func Percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(utilvalidation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	var n int
	_, err := fmt.Sscanf(v.StrVal, "%d%%", &n)
	return n, err == nil
}

// Number returns the value as a number, a percentage as its points.
func Number(v intstr.IntOrString) int {
	if p, ok := Percent(v); ok {
		return p
	}
	return v.IntValue()
}

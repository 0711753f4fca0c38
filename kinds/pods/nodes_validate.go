package pods

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
)

// validateNode checks spec and status alike, because both come with a new node. Of much that is wrong with a node that is
// changed it tells twice, as upstream does.
func validateNode(on *features.Set, n, old *corev1.Node) field.ErrorList {
	errs := validateNodeParts(n)
	if s := n.Status.NodeInfo.Swap; s != nil && s.Capacity != nil && *s.Capacity <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "nodeSwapStatus", "capacity"), *s.Capacity, "must be greater than zero"))
	}
	errs = append(errs, validateRanges(n.Spec.PodCIDRs, specPath.Child("podCIDRs"))...)
	if old != nil {
		errs = append(errs, validateNodeUpdate(n, old)...)
		errs = append(errs, providerKept(on, n.Spec.ProviderID, old.Spec.ProviderID)...)
	}
	return errs
}

// providerKept says that the name that a cloud gave a node stays.
func providerKept(on *features.Set, is, was string) field.ErrorList {
	at := specPath.Child("providerID")
	switch {
	case was == "" || is == was:
		return nil
	case !on.AtLeast(37):
		return field.ErrorList{field.Forbidden(at, `node updates may not change providerID except from "" to valid`)}
	case is == "":
		return field.ErrorList{field.Invalid(at, nil, "field cannot be cleared once set")}
	}
	return field.ErrorList{field.Invalid(at, nil, "field cannot be modified once set")}
}

// validateNodeParts checks what is looked at with each write.
func validateNodeParts(n *corev1.Node) field.ErrorList {
	errs := nodeAnnotations(n.Annotations, annotationsPath)
	errs = append(errs, validateAmounts(n.Status.Capacity, "capacity")...)
	errs = append(errs, validateAmounts(n.Status.Allocatable, "allocatable")...)
	errs = append(errs, validateTaints(n.Spec.Taints, field.NewPath("metadata", "taints"))...)
	return append(errs, validateDeclared(n.Status.DeclaredFeatures, statusPath.Child("declaredFeatures"))...)
}

// The annotations of old for what fields say today, or nobody looks at any more.
const (
	taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"
	avoidAnnotation  = corev1.PreferAvoidPodsAnnotationKey
)

// nodeAnnotations are two that old releases kept scheduling in, and that upstream still checks.
func nodeAnnotations(a map[string]string, path *field.Path) (errs field.ErrorList) {
	var taints []corev1.Taint
	if text := a[taintsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &taints); err != nil {
			errs = append(errs, field.Invalid(path, taintsAnnotation, err.Error()))
		} else {
			errs = append(errs, validateTaints(taints, path.Child(taintsAnnotation))...)
		}
	}
	var avoid corev1.AvoidPods
	if text := a[avoidAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &avoid); err != nil {
			return append(errs, field.Invalid(path.Child("AvoidPods"), avoidAnnotation, err.Error()))
		}
	}
	for i, e := range avoid.PreferAvoidPods {
		at := path.Child(avoidAnnotation).Index(i).Child("PodSignature")
		switch c := e.PodSignature.PodController; {
		case c == nil:
			errs = append(errs, field.Required(at, ""))
		case c.Controller == nil || !*c.Controller:
			errs = append(errs, field.Invalid(at.Child("PodController", "Controller"), false, "must point to a controller"))
		}
	}
	return errs
}

var declaredFeature = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*$`)

// validateDeclared asks for the names of features in order.
func validateDeclared(list []string, path *field.Path) (errs field.ErrorList) {
	for i, f := range list {
		switch {
		case len(f) > utilvalidation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.Invalid(path.Index(i), f, fmt.Sprintf("invalid feature name %q: must be no more than %d characters",
				f, utilvalidation.DNS1123SubdomainMaxLength)))
		case !declaredFeature.MatchString(f):
			errs = append(errs, field.Invalid(path.Index(i), f, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, "+
				"with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), "+
				"and contain only alphanumeric characters and slashes", f)))
		}
		switch {
		case i == 0 || list[i-1] < f:
		case list[i-1] == f:
			errs = append(errs, field.Duplicate(path.Index(i), f))
		default:
			errs = append(errs, field.Invalid(path.Index(i), f, "list must be sorted alphabetically"))
		}
	}
	return errs
}

func validateAmounts(list corev1.ResourceList, name string) (errs field.ErrorList) {
	for _, r := range slices.Sorted(maps.Keys(list)) {
		errs = append(errs, podspec.ValidateQuantity(r, list[r], statusPath.Child(name, string(r)))...)
	}
	return errs
}

// validateTaints lets a key stand once for each effect.
func validateTaints(list []corev1.Taint, path *field.Path) (errs field.ErrorList) {
	type key struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := sets.New[key]()
	for i, t := range list {
		at := path.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		errs = append(errs, podspec.ValidateLabelValue(t.Value, at.Child("value"))...)
		errs = append(errs, podspec.ValidateTaintEffect(t.Effect, at.Child("effect"))...)
		k := key{t.Key, t.Effect}
		if seen.Has(k) {
			e := field.Duplicate(at, struct { // clients know it so
				Key, Value string
				Effect     corev1.TaintEffect
				TimeAdded  *metav1.Time
			}(t))
			e.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, e)
		}
		seen.Insert(k)
	}
	return errs
}

func validateRanges(list []string, path *field.Path) (errs field.ErrorList) {
	for i, r := range list {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(path.Index(i), r, true, nil)...)
	}
	return append(errs, oneOfEach(netutils.IsDualStackCIDRStrings, list, "CIDR", path)...)
}

func validateNodeUpdate(n, old *corev1.Node) field.ErrorList {
	errs := validateNodeParts(n)
	seen := sets.New[corev1.NodeAddress]()
	for i, a := range n.Status.Addresses {
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(statusPath.Child("addresses").Index(i), a))
		}
		seen.Insert(a)
	}
	if was := old.Spec.PodCIDRs; len(was) > 0 {
		errs = append(errs, rangesKept(n.Spec.PodCIDRs, was, specPath.Child("podCIDRs"))...)
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(specPath.Child("externalID"), "may not be updated"))
	}
	return errs
}

// rangesKept refuses other ranges for pods, telling of each that there was.
func rangesKept(list, old []string, path *field.Path) (errs field.ErrorList) {
	bad := field.Forbidden(path, "node updates may not change podCIDR except from \"\" to valid")
	if len(list) != len(old) {
		return field.ErrorList{bad}
	}
	for i := range old {
		if list[i] != old[i] {
			errs = append(errs, bad)
		}
	}
	return errs
}

package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// failurePolicy are rules that decide what a failed pod means for the job (KEP-3329). They name containers of the template.
func failurePolicy(s *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	if s.PodFailurePolicy == nil {
		return nil
	}
	rules, path := s.PodFailurePolicy.Rules, path.Child("rules")
	if len(rules) > maxFailureRules {
		errs = append(errs, field.TooMany(path, len(rules), maxFailureRules))
	}
	names := sets.New[string]()
	for _, c := range append(s.Template.Spec.InitContainers, s.Template.Spec.Containers...) {
		names.Insert(c.Name)
	}
	for i, r := range rules {
		errs = append(errs, failureRule(s, r, names, path.Index(i))...)
	}
	return errs
}

// failureRule asks one question: about exit codes, or about conditions of the pod.
func failureRule(s *batchv1.JobSpec, r batchv1.PodFailurePolicyRule, names sets.Set[string], path *field.Path) (errs field.ErrorList) {
	switch {
	case r.Action == "":
		errs = append(errs, field.Required(path.Child("action"), `valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`))
	case r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil:
		errs = append(errs, field.Invalid(path.Child("action"), r.Action, "requires the backoffLimitPerIndex to be set"))
	default:
		errs = append(errs, rule.Among(r.Action, path.Child("action"), batchv1.PodFailurePolicyActionFailJob,
			batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount)...)
	}
	if r.OnExitCodes != nil {
		errs = append(errs, exitCodes(r.OnExitCodes, names, path.Child("onExitCodes"))...)
	}
	if len(r.OnPodConditions) > maxConditionPattern {
		errs = append(errs, field.TooMany(path.Child("onPodConditions"), len(r.OnPodConditions), maxConditionPattern))
	}
	for i, c := range r.OnPodConditions {
		errs = append(errs, podCondition(c, path.Child("onPodConditions").Index(i))...)
	}
	switch {
	case r.OnExitCodes != nil && len(r.OnPodConditions) > 0:
		errs = append(errs, field.Invalid(path, field.OmitValueType{},
			"specifying both OnExitCodes and OnPodConditions is not supported"))
	case r.OnExitCodes == nil && len(r.OnPodConditions) == 0:
		errs = append(errs, field.Invalid(path, field.OmitValueType{},
			"specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func podCondition(c batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabelName(string(c.Type), path.Child("type"))
	return append(errs, rule.Chosen(c.Status, path.Child("status"),
		corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)...)
}

// exitCodes are sorted and without repetition. In may not name zero, which is no failure.
func exitCodes(r *batchv1.PodFailurePolicyOnExitCodesRequirement, names sets.Set[string], path *field.Path) (errs field.ErrorList) {
	if r.Operator == "" {
		errs = append(errs, field.Required(path.Child("operator"), `valid values: ["In" "NotIn"]`))
	} else {
		errs = append(errs, rule.Among(r.Operator, path.Child("operator"),
			batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)...)
	}
	if r.ContainerName != nil && !names.Has(*r.ContainerName) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *r.ContainerName,
			"must be one of the container or initContainer names in the pod template"))
	}
	values := path.Child("values")
	switch {
	case len(r.Values) == 0:
		return append(errs, field.Invalid(values, []int32{}, "at least one value is required"))
	case len(r.Values) > maxExitCodes:
		errs = append(errs, field.TooMany(values, len(r.Values), maxExitCodes))
	}
	errs = append(errs, rule.Duplicates(r.Values, values.Index)...)
	for i, v := range r.Values {
		if r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && v == 0 {
			errs = append(errs, field.Invalid(values.Index(i), v, "must not be 0 for the In operator"))
		}
	}
	if !slices.IsSorted(r.Values) {
		errs = append(errs, field.Invalid(values, r.Values, "must be ordered"))
	}
	return errs
}

// successPolicy ends an indexed job early, when the indexes that matter have succeeded (KEP-3998).
func successPolicy(s *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	p := s.SuccessPolicy
	switch {
	case p == nil:
		return nil
	case value(s.CompletionMode) != batchv1.IndexedCompletion:
		return field.ErrorList{field.Invalid(path, rule.Internal(*p), "requires indexed completion mode")}
	case len(p.Rules) == 0:
		errs = append(errs, field.Required(path.Child("rules"), "at least one rules must be specified when the successPolicy is specified"))
	case len(p.Rules) > maxFailureRules:
		errs = append(errs, field.TooMany(path.Child("rules"), len(p.Rules), maxFailureRules))
	}
	for i, r := range p.Rules {
		errs = append(errs, successRule(s, r, path.Child("rules").Index(i))...)
	}
	return errs
}

// successRule names indexes, or how many must succeed, or how many of the ones it names.
func successRule(s *batchv1.JobSpec, r batchv1.SuccessPolicyRule, path *field.Path) (errs field.ErrorList) {
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		return field.ErrorList{field.Required(path, "at least one of succeededCount or succeededIndexes must be specified")}
	}
	total, listed := value(s.Completions), int32(0)
	if list := r.SucceededIndexes; list != nil {
		at := path.Child("succeededIndexes")
		if len(*list) > longestIndexes {
			errs = append(errs, field.TooLong(at, *list, longestIndexes))
		}
		var err error
		if listed, err = parseIndexes(*list, total); err != nil {
			errs = append(errs, field.Invalid(at, *list, "error parsing succeededIndexes: "+err.Error()))
		}
	}
	if c := r.SucceededCount; c != nil {
		errs = append(errs, rule.AtLeast(*c, 0, path.Child("succeededCount"))...)
		if *c > total {
			errs = append(errs, field.Invalid(path.Child("succeededCount"), *c,
				fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", total)))
		}
		if r.SucceededIndexes != nil && *c > listed {
			errs = append(errs, field.Invalid(path.Child("succeededCount"), *c,
				fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", listed)))
		}
	}
	return errs
}

// An interval is a range of indexes, both ends included.
type interval struct{ from, to int32 }

// readInterval reads "3" or "1-5", the form in which status tells of indexes too.
func readInterval(text string, completions int32) (v interval, err error) {
	low, high, ranged := strings.Cut(text, "-")
	ends := []string{low}
	if ranged {
		ends = append(ends, high)
	}
	for _, s := range ends {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return v, fmt.Errorf("cannot convert string to integer for index: %q", s)
		}
		if n >= int64(completions) {
			return v, fmt.Errorf("too large index: %q", s)
		}
		v.from, v.to = v.to, int32(n)
	}
	if !ranged {
		v.from = v.to
	} else if v.from >= v.to {
		return v, fmt.Errorf("non-increasing order in %q", text)
	}
	return v, nil
}

// parseIndexes reads a list of indexes like 1,3-5 below the number of completions and counts them.
func parseIndexes(list string, completions int32) (count int32, err error) {
	if list == "" {
		return 0, nil
	}
	last := int32(-1)
	for _, part := range strings.Split(list, ",") {
		v, err := readInterval(part, completions)
		if err != nil {
			return 0, err
		}
		if v.from <= last {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, v.from)
		}
		last, count = v.to, count+v.to-v.from+1
	}
	return count, nil
}

// overlap returns an index that is in both lists, if there is one; what is no interval is complained about elsewhere.
func overlap(a, b string, completions int32) (at int32, both bool) {
	for _, s := range strings.Split(a, ",") {
		x, err := readInterval(s, completions)
		for _, t := range strings.Split(b, ",") {
			if y, bad := readInterval(t, completions); err == nil && bad == nil && x.from <= y.to && y.from <= x.to {
				return max(x.from, y.from), true
			}
		}
	}
	return 0, false
}

//go:build !reader

package apiextensions

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/expression"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// The budgets of rules, in the units of CEL's estimate: of one rule, and of all rules of a version.
const (
	maxRuleCost  = 10_000_000
	maxTotalCost = 100_000_000
	maxBlamed    = 4 // how many rules are named when all together cost too much
)

const rulesName = "x-kubernetes-validations"

// texts checks what can be said of rules without compiling them.
func texts(s *props, at schemaPosition) (errs field.ErrorList) {
	for i, r := range s.XValidations {
		path, message := at.path.Child(rulesName).Index(i), strings.TrimSpace(r.Message)
		switch {
		case strings.TrimSpace(r.Rule) == "":
			errs = append(errs, field.Required(path.Child("rule"), "rule is not specified"))
		case r.Message != "" && message == "":
			errs = append(errs, field.Invalid(path.Child("message"), r.Message, "must be non-empty if specified"))
		case strings.ContainsAny(message, "\r\n"):
			errs = append(errs, field.Invalid(path.Child("message"), r.Message, "must not contain line breaks"))
		case strings.ContainsAny(strings.TrimSpace(r.Rule), "\r\n") && message == "":
			errs = append(errs, field.Required(path.Child("message"), "message must be specified if rule contains line breaks"))
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			errs = append(errs, field.Required(path.Child("messageExpression"), "messageExpression must be non-empty if specified"))
		}
		errs = append(errs, rule.AmongPtr(r.Reason, path.Child("reason"), reasons...)...)
		errs = append(errs, fieldPath(r.FieldPath, s, at, path.Child("fieldPath"))...)
	}
	return errs
}

// fieldPath checks the path that a rule blames.
func fieldPath(text string, s *props, at schemaPosition, path *field.Path) (errs field.ErrorList) {
	if text == "" {
		return nil
	}
	if strings.TrimSpace(text) == "" {
		errs = append(errs, field.Invalid(path, text, "must be non-empty if specified"))
	}
	if strings.ContainsAny(text, "\r\n") {
		errs = append(errs, field.Invalid(path, text, "must not contain line breaks"))
	}
	of := at.s
	if of == nil {
		var err error
		if of, err = structural.NewStructural(s); err != nil {
			return errs
		}
	}
	if _, _, err := cel.ValidFieldPath(text, of); err != nil {
		errs = append(errs, field.Invalid(path, text, "must be a valid path"))
	}
	return errs
}

var errUntyped = errors.New("internal error: failed to construct type information for x-kubernetes-validations rules: " +
	"unable to convert structural schema to CEL declarations")

// untyped says that rules have no type for what is of a schema.
func untyped(s *structural.Structural) bool {
	if s.XIntOrString {
		return false
	}
	switch s.Type {
	case "string", "boolean", "number", "integer":
		return false
	case "array":
		return s.Items == nil || !s.Items.XEmbeddedResource && untyped(s.Items)
	case "object":
		more := s.AdditionalProperties
		return more != nil && more.Structural != nil && !more.Structural.XEmbeddedResource && untyped(more.Structural)
	}
	return true
}

// compile compiles the rules of a schema.
func (w *walk) compile(s *props, at schemaPosition) (errs field.ErrorList) {
	path := at.path.Child(rulesName)
	if at.untyped {
		return field.ErrorList{field.InternalError(path, errUntyped)}
	}
	for i, r := range s.XValidations {
		for name, text := range map[string]string{"rule": r.Rule, "messageExpression": r.MessageExpression} {
			if wrong := expression.TooDeep(text); wrong != "" {
				return append(errs, field.Invalid(path.Index(i).Child(name), r, wrong))
			}
		}
	}
	results, err := verdicts.of(at.s, at.root || s.XEmbeddedResource, w.l)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	for i, r := range results {
		errs = append(errs, w.judge(r, s, i, path.Index(i), at)...)
	}
	return errs
}

func (w *walk) judge(r celCheck, s *props, i int, path *field.Path, at schemaPosition) (errs field.ErrorList) {
	v, text, message := s.XValidations[i], path.Child("rule"), path.Child("messageExpression")
	cost := product(r.MaxCost, r.MaxCardinality)
	if at.known {
		cost = product(r.MaxCost, at.times)
	}
	errs = append(errs, w.spend(text, "estimated rule cost", cost)...)
	if e := r.Error; e != nil && e.Type == apiservercel.ErrorTypeRequired {
		errs = append(errs, field.Required(text, e.Detail))
	} else if e != nil {
		errs = append(errs, field.Invalid(text, v, e.Detail))
	}
	if e := r.MessageExpressionError; e != nil {
		errs = append(errs, field.Invalid(message, v, e.Detail))
	} else if r.hasMessage {
		errs = append(errs, w.spend(message, "estimated messageExpression cost", r.MessageExpressionMaxCost)...)
	}
	switch {
	case r.UsesOldSelf && at.noOlder != nil:
		errs = append(errs, field.Invalid(text, v.Rule,
			fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", at.noOlder)))
	case !r.UsesOldSelf && v.OptionalOldSelf != nil:
		errs = append(errs, field.Invalid(path.Child("optionalOldSelf"), *v.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
	return errs
}

func (w *walk) spend(path *field.Path, what string, cost uint64) field.ErrorList {
	w.bill.note(path, cost)
	if cost <= maxRuleCost || w.same {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, tooDear(what, cost, maxRuleCost))}
}

// A celCost adds up what the rules of a schema may cost.
type celCost struct {
	sum  uint64
	dear []celExpense
}

type celExpense struct {
	path *field.Path
	cost uint64
}

func (b *celCost) note(path *field.Path, cost uint64) {
	if b.sum += cost; b.sum < cost {
		b.sum = math.MaxUint64
	}
	if cost >= maxTotalCost/100 {
		b.dear = append(b.dear, celExpense{path, cost})
	}
}

// total complains of the sum.
func (b *celCost) total(path *field.Path) (errs field.ErrorList) {
	if b.sum <= maxTotalCost {
		return nil
	}
	coldsort.StableFunc(b.dear, func(a, b celExpense) int {
		if a.cost > b.cost {
			return -1
		}
		return 1
	})
	for _, e := range b.dear[:min(len(b.dear), maxBlamed)] {
		errs = append(errs, field.Forbidden(e.path, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(errs, field.Forbidden(path, tooDear("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema",
		b.sum, maxTotalCost)))
}

// product multiplies without running over.
func product(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}

// tooDear words by how much a rule may cost more than it may. The estimate assumes lists and texts of the greatest length that the schema
// allows: bounds in the schema make a rule cheap (KEP-2876).
func tooDear(what string, cost, limit uint64) string {
	factor := fmt.Sprintf("%.1fx", float64(cost)/float64(limit))
	switch by := float64(cost) / float64(limit); {
	case by > 100:
		factor = "more than 100x"
	case by < 1.5:
		factor = fmt.Sprintf("%fx", by)
	}
	return fmt.Sprintf("%s exceeds budget by factor of %s (try simplifying the rule, or adding maxItems, maxProperties, "+
		"and maxLength where arrays, maps, and strings are declared)", what, factor)
}

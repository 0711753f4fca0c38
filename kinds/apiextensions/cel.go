package apiextensions

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// The budgets of rules, in the units of CEL's estimate: of one rule, and of all rules of a version.
const (
	maxRuleCost  = 10_000_000
	maxTotalCost = 100_000_000
	maxBlamed    = 4 // how many rules are named when all together cost too much
)

var baseEnvironment = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// texts checks what can be said of rules without compiling them.
func texts(list apiextensions.ValidationRules, path *field.Path) (errs field.ErrorList) {
	for i, r := range list {
		at, message := path.Index(i), strings.TrimSpace(r.Message)
		switch {
		case strings.TrimSpace(r.Rule) == "":
			errs = append(errs, field.Required(at.Child("rule"), "rule is not specified"))
		case r.Message != "" && message == "":
			errs = append(errs, field.Invalid(at.Child("message"), r.Message, "must be non-empty if specified"))
		case strings.ContainsAny(message, "\r\n"):
			errs = append(errs, field.Invalid(at.Child("message"), r.Message, "must not contain line breaks"))
		case strings.ContainsAny(strings.TrimSpace(r.Rule), "\r\n") && message == "":
			errs = append(errs, field.Required(at.Child("message"), "message must be specified if rule contains line breaks"))
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			errs = append(errs, field.Required(at.Child("messageExpression"), "messageExpression must be non-empty if specified"))
		}
		errs = append(errs, rule.AmongPtr(r.Reason, at.Child("reason"), apiextensions.FieldValueRequired,
			apiextensions.FieldValueForbidden, apiextensions.FieldValueInvalid, apiextensions.FieldValueDuplicate)...)
		if r.FieldPath != "" && (strings.TrimSpace(r.FieldPath) == "" || strings.ContainsAny(r.FieldPath, "\r\n")) {
			errs = append(errs, field.Invalid(at.Child("fieldPath"), r.FieldPath, "must be a non-empty line if specified"))
		}
	}
	return errs
}

// A spender compiles the rules of a schema and adds up what they may cost.
type spender struct {
	errs  field.ErrorList
	total uint64
	spent []expense
}

type expense struct {
	path *field.Path
	cost uint64
}

// celRules compiles all rules of a structural schema.
func celRules(s *structural.Structural, path *field.Path) field.ErrorList {
	if !hasRules(s) {
		return nil
	}
	var sp spender
	sp.walk(s, path, node{root: true, known: true, times: 1})
	if sp.total <= maxTotalCost {
		return sp.errs
	}
	slices.SortStableFunc(sp.spent, func(a, b expense) int {
		if a.cost > b.cost {
			return -1
		}
		return 1
	})
	for _, e := range sp.spent[:min(len(sp.spent), maxBlamed)] {
		if e.cost >= maxTotalCost/100 {
			sp.errs = append(sp.errs, field.Forbidden(e.path, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
		}
	}
	return append(sp.errs, field.Forbidden(path, tooDear("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", sp.total, maxTotalCost)))
}

func hasRules(s *structural.Structural) bool {
	if s == nil {
		return false
	}
	if len(s.XValidations) > 0 || hasRules(s.Items) || s.AdditionalProperties != nil && hasRules(s.AdditionalProperties.Structural) {
		return true
	}
	for _, p := range s.Properties {
		if hasRules(&p) {
			return true
		}
	}
	return false
}

// A node says where in the schema a rule stands: how often there may be such a value, if that is known, and
// where above there is a list whose items have no identity.
type node struct {
	root    bool
	known   bool
	times   uint64
	noOlder *field.Path
}

func (n node) within(limit *int64) node {
	n.root = false
	if n.known = n.known && limit != nil; n.known {
		n.times = product(n.times, uint64(max(*limit, 0)))
	}
	return n
}

func (sp *spender) walk(s *structural.Structural, path *field.Path, n node) {
	sp.compile(s, path, n)
	inner := n
	inner.root = false
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		sp.walk(&p, path.Child("properties").Key(name), inner)
	}
	var limits structural.ValueValidation
	if s.ValueValidation != nil {
		limits = *s.ValueValidation
	}
	if s.Items != nil {
		item := n.within(limits.MaxItems)
		if item.noOlder == nil && (s.XListType == nil || *s.XListType != "map") {
			item.noOlder = path
		}
		sp.walk(s.Items, path.Child("items"), item)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		sp.walk(s.AdditionalProperties.Structural, path.Child("additionalProperties"), n.within(limits.MaxProperties))
	}
}

func (sp *spender) compile(s *structural.Structural, path *field.Path, n node) {
	if len(s.XValidations) == 0 {
		return
	}
	path = path.Child("x-kubernetes-validations")
	results, err := verdicts.of(s, n.root || s.XEmbeddedResource)
	if err != nil {
		sp.errs = append(sp.errs, field.InternalError(path, err))
		return
	}
	for i, r := range results {
		v := s.XValidations[i]
		sp.judge(r, v, path.Index(i), n)
		if strings.TrimSpace(v.FieldPath) == "" {
			continue
		}
		if _, _, err := cel.ValidFieldPath(v.FieldPath, s); err != nil {
			sp.errs = append(sp.errs, field.Invalid(path.Index(i).Child("fieldPath"), v.FieldPath, "fieldPath must be a valid path: "+err.Error()))
		}
	}
}

func (sp *spender) judge(r verdict, v v1.ValidationRule, path *field.Path, n node) {
	cost := product(r.MaxCost, r.MaxCardinality)
	if n.known {
		cost = product(r.MaxCost, n.times)
	}
	sp.spend(path.Child("rule"), "estimated rule cost", cost)
	if e := r.Error; e != nil {
		if e.Type == apiservercel.ErrorTypeRequired {
			sp.errs = append(sp.errs, field.Required(path.Child("rule"), e.Detail))
		} else {
			sp.errs = append(sp.errs, field.Invalid(path.Child("rule"), v.Rule, e.Detail))
		}
	}
	if e := r.MessageExpressionError; e != nil {
		sp.errs = append(sp.errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, e.Detail))
	} else if r.hasMessage {
		sp.spend(path.Child("messageExpression"), "estimated messageExpression cost", r.MessageExpressionMaxCost)
	}
	switch {
	case r.UsesOldSelf && n.noOlder != nil:
		sp.errs = append(sp.errs, field.Invalid(path.Child("rule"), v.Rule,
			fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", n.noOlder)))
	case !r.UsesOldSelf && v.OptionalOldSelf != nil:
		sp.errs = append(sp.errs, field.Invalid(path.Child("optionalOldSelf"), *v.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
}

func (sp *spender) spend(path *field.Path, what string, cost uint64) {
	if cost > maxRuleCost {
		sp.errs = append(sp.errs, field.Forbidden(path, tooDear(what, cost, maxRuleCost)))
	}
	if sp.total += cost; sp.total < cost {
		sp.total = ^uint64(0)
	}
	sp.spent = append(sp.spent, expense{path, cost})
}

// product multiplies without running over.
func product(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return ^uint64(0)
}

func tooDear(what string, cost, limit uint64) string {
	return fmt.Sprintf("%s exceeds budget by factor of %.1fx (try simplifying the rule, or adding maxItems, maxProperties, "+
		"and maxLength where arrays, maps, and strings are declared)", what, float64(cost)/float64(limit))
}

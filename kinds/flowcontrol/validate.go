package flowcontrol

import (
	"fmt"
	"math"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// The limits of queues: how many there are, and how many bits of a request's hash dealing hands may take.
const (
	maxQueues   = 10_000_000
	maxHashBits = 60
)

var known = []string{"get", "list", "create", "update", "delete", "deletecollection", "patch", "watch", "proxy"}

func validateSchema(s *flowcontrolv1.FlowSchema, spec *field.Path) (errs field.ErrorList) {
	precedence := spec.Child("matchingPrecedence")
	switch p := s.Spec.MatchingPrecedence; {
	case p <= 0:
		errs = append(errs, field.Invalid(precedence, p, "must be a positive value"))
	case p > flowcontrolv1.FlowSchemaMaxMatchingPrecedence:
		errs = append(errs, field.Invalid(precedence, p, fmt.Sprintf("must not be greater than %v",
			flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	case p == 1 && s.Name != flowcontrolv1.FlowSchemaNameExempt:
		errs = append(errs, field.Invalid(precedence, p, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if d := s.Spec.DistinguisherMethod; d != nil {
		errs = append(errs, showing(rule.Internal(*d), rule.Among(d.Type, spec.Child("distinguisherMethod", "type"),
			flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.FlowDistinguisherMethodByNamespaceType))...)
	}
	level := spec.Child("priorityLevelConfiguration", "name")
	if name := s.Spec.PriorityLevelConfiguration.Name; name == "" {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	} else {
		errs = append(errs, rule.Format(name, level, rule.Subdomain)...)
	}
	for i, r := range s.Spec.Rules {
		errs = append(errs, rules(r, spec.Child("rules").Index(i))...)
	}
	for _, m := range bootstrap.MandatoryFlowSchemas {
		if m.Name == s.Name && !resource.Same(m.Spec, s.Spec) {
			errs = append(errs, field.Invalid(spec, s.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
		}
	}
	return errs
}

func rules(r flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) (errs field.ErrorList) {
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i, s := range r.Subjects {
		errs = append(errs, subject(s, path.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules)+len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i, p := range r.ResourceRules {
		errs = append(errs, resourceRule(p, path.Child("resourceRules").Index(i))...)
	}
	for i, p := range r.NonResourceRules {
		at := path.Child("nonResourceRules").Index(i)
		errs = append(errs, verbs(p.Verbs, at.Child("verbs"))...)
		urls := words{needs: "nonResourceURLs must contain at least one value", others: "non-resource URLs"}
		errs = append(errs, list(p.NonResourceURLs, urls, at.Child("nonResourceURLs"), url)...)
	}
	return errs
}

func resourceRule(p flowcontrolv1.ResourcePolicyRule, at *field.Path) (errs field.ErrorList) {
	errs = append(errs, verbs(p.Verbs, at.Child("verbs"))...)
	groups := words{needs: "resource rules must supply at least one api group", others: "api groups"}
	errs = append(errs, list(p.APIGroups, groups, at.Child("apiGroups"), nil)...)
	kinds := words{needs: "resource rules must supply at least one resource", others: "resources"}
	errs = append(errs, list(p.Resources, kinds, at.Child("resources"), nil)...)
	if len(p.Namespaces) == 0 && p.ClusterScope {
		return errs
	}
	spaces := words{needs: "resource rules that are not cluster scoped must supply at least one namespace", others: "namespaces"}
	return append(errs, list(p.Namespaces, spaces, at.Child("namespaces"), func(n string, at *field.Path) (errs field.ErrorList) {
		for _, says := range validation.ValidateNamespaceName(n, false) {
			errs = append(errs, field.Invalid(at, n, "each member of this list must be '*' or a DNS-1123 label; "+says))
		}
		return errs
	})...)
}

// words are the messages for an empty list and for entries beside a wildcard.
type words struct{ needs, others string }

// list checks that there is something, that * stands alone, and each of the others.
func list(values []string, say words, path *field.Path, check func(string, *field.Path) field.ErrorList) (errs field.ErrorList) {
	if len(values) == 0 {
		return field.ErrorList{field.Required(path, say.needs)}
	}
	if slices.Contains(values, "*") {
		if len(values) > 1 {
			errs = append(errs, field.Invalid(path, values, "if '*' is present, must not specify other "+say.others))
		}
		return errs
	}
	for i, v := range values {
		if check != nil {
			errs = append(errs, check(v, path.Index(i))...)
		}
	}
	return errs
}

// verbs complains of the whole list, whichever is wrong.
func verbs(values []string, path *field.Path) field.ErrorList {
	errs := list(values, words{needs: "verbs must contain at least one value", others: "verbs"}, path,
		func(v string, _ *field.Path) field.ErrorList { return rule.Among(v, path, known...) })
	if len(errs) > 1 {
		errs = errs[:1]
	}
	return showing(values, errs)
}

// showing has errors about values that may not be tell all of v.
func showing(v any, errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		if e.Type == field.ErrorTypeNotSupported {
			e.BadValue = v
		}
	}
	return errs
}

func url(u string, path *field.Path) field.ErrorList {
	trimmed := strings.TrimSuffix(u, "/*")
	switch {
	case u == "":
		return field.ErrorList{field.Invalid(path, u, "must not be empty")}
	case u == "/":
		return nil
	case !strings.HasPrefix(u, "/"):
		return field.ErrorList{field.Invalid(path, u, "must start with slash")}
	case strings.Contains(u, " "):
		return field.ErrorList{field.Invalid(path, u, "must not contain white-space")}
	case strings.Contains(u, "//"):
		return field.ErrorList{field.Invalid(path, u, "must not contain double slash")}
	case strings.Contains(trimmed, "*"):
		return field.ErrorList{field.Invalid(path, u, "wildcard can only do suffix matching")}
	}
	return nil
}

// subject checks first what the kind of subject is described by, then that nothing else describes it.
func subject(s flowcontrolv1.Subject, path *field.Path) (errs field.ErrorList) {
	known := false
	var others field.ErrorList
	for _, p := range []struct {
		kind flowcontrolv1.SubjectKind
		name string
		set  bool
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil},
	} {
		switch own := p.kind == s.Kind; {
		case own && !p.set:
			errs = append(errs, field.Required(path.Child(p.name), p.name+" is required when subject kind is '"+string(p.kind)+"'"))
			known = true
		case own:
			known = true
		case p.set:
			others = append(others, field.Forbidden(path.Child(p.name), p.name+" is forbidden when subject kind is not '"+string(p.kind)+"'"))
		}
	}
	switch {
	case !known:
		return field.ErrorList{field.NotSupported(path.Child("kind"), s.Kind,
			[]flowcontrolv1.SubjectKind{flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser})}
	case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
		errs = append(errs, serviceAccount(s.ServiceAccount, path.Child("serviceAccount"))...)
	case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
		errs = append(errs, rule.Needed(s.User.Name, path.Child("user", "name"))...)
	case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
		errs = append(errs, rule.Needed(s.Group.Name, path.Child("group", "name"))...)
	}
	return append(errs, others...)
}

func serviceAccount(s *flowcontrolv1.ServiceAccountSubject, path *field.Path) (errs field.ErrorList) {
	if s.Name != "*" {
		errs = append(errs, rule.NeededFormat(s.Name, path.Child("name"), rule.Subdomain)...)
	}
	if s.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, rule.Format(s.Namespace, path.Child("namespace"), rule.Label)...)
}

// zeroShares is the annotation by which an older version of the kind told no shares from none said.
const zeroShares = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

func validateLevel(l *flowcontrolv1.PriorityLevelConfiguration, spec *field.Path) (errs field.ErrorList) {
	if _, set := l.Annotations[zeroShares]; set {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations"), "specifying this annotation is not allowed"))
	}
	errs = append(errs, levelOfType(l, spec)...)
	for _, m := range bootstrap.MandatoryPriorityLevelConfigurations {
		want := m.Spec.DeepCopy()
		if want.Type == flowcontrolv1.PriorityLevelEnablementExempt && l.Spec.Exempt != nil {
			want.Exempt = l.Spec.Exempt // its shares may be tuned
		}
		if m.Name == l.Name && !resource.Same(*want, l.Spec) {
			errs = append(errs, field.Invalid(spec, l.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", l.Name)))
		}
	}
	return errs
}

// levelOfType checks a level by the rules of its type.
func levelOfType(l *flowcontrolv1.PriorityLevelConfiguration, spec *field.Path) (errs field.ErrorList) {
	typ := spec.Child("type")
	if (l.Name == exempt) != (l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) &&
		(l.Name == exempt || l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(typ, l.Spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch l.Spec.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if l.Spec.Limited != nil {
			errs = append(errs, field.Forbidden(spec.Child("limited"), "must be nil if the type is not Limited"))
		}
		if e := l.Spec.Exempt; e != nil {
			errs = append(errs, shares(e.NominalConcurrencyShares, spec.Child("exempt"))...)
			errs = append(errs, lendable(e.LendablePercent, spec.Child("exempt"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if l.Spec.Exempt != nil {
			errs = append(errs, field.Forbidden(spec.Child("exempt"), "must be nil if the type is Limited"))
		}
		if l.Spec.Limited == nil {
			return append(errs, field.Required(spec.Child("limited"), "must not be empty when type is Limited"))
		}
		errs = append(errs, limited(l.Spec.Limited, spec.Child("limited"))...)
	default:
		errs = append(errs, rule.Chosen(l.Spec.Type, typ, flowcontrolv1.PriorityLevelEnablementExempt,
			flowcontrolv1.PriorityLevelEnablementLimited)...)
	}
	return errs
}

func shares(nominal *int32, path *field.Path) field.ErrorList {
	if nominal != nil && *nominal < 0 {
		return field.ErrorList{field.Invalid(path.Child("nominalConcurrencyShares"), *nominal, "must be a non-negative integer")}
	}
	return nil
}

func lendable(percent *int32, path *field.Path) field.ErrorList {
	if percent == nil {
		return nil
	}
	return rule.Within(*percent, 0, 100, path.Child("lendablePercent"))
}

func limited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, shares(l.NominalConcurrencyShares, path)...)
	errs = append(errs, response(l.LimitResponse, path.Child("limitResponse"))...)
	errs = append(errs, lendable(l.LendablePercent, path)...)
	if b := l.BorrowingLimitPercent; b != nil && *b < 0 {
		errs = append(errs, field.Invalid(path.Child("borrowingLimitPercent"), *b, "if specified, must be a non-negative integer"))
	}
	return errs
}

func response(r flowcontrolv1.LimitResponse, at *field.Path) (errs field.ErrorList) {
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			errs = append(errs, field.Forbidden(at.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			return append(errs, field.Required(at.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
		}
		errs = append(errs, queuing(r.Queuing, at.Child("queuing"))...)
	default:
		errs = append(errs, rule.Chosen(r.Type, at.Child("type"), flowcontrolv1.LimitResponseTypeReject, flowcontrolv1.LimitResponseTypeQueue)...)
	}
	return errs
}

func queuing(q *flowcontrolv1.QueuingConfiguration, path *field.Path) (errs field.ErrorList) {
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(path.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	switch {
	case q.Queues <= 0:
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, "must be positive"))
	case q.Queues > maxQueues:
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := path.Child("handSize")
	switch {
	case q.HandSize <= 0:
		errs = append(errs, field.Invalid(hand, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case math.Ceil(hashBits(q.Queues, q.HandSize)) > maxHashBits:
		errs = append(errs, field.Invalid(hand, q.HandSize,
			fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, maxHashBits)))
	}
	return errs
}

// hashBits is the number of bits that it takes to deal a hand of queues.
func hashBits(deck, hand int32) (bits float64) {
	for i := range hand {
		bits += math.Log2(float64(deck - i))
	}
	return bits
}

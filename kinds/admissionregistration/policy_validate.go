package admissionregistration

import (
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// The limits of a policy.
const (
	maxConditions      = 64
	maxAnnotations     = 20
	maxAnnotationValue = 5 << 10
)

var celIdentifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// celReserved are the words that cannot name a variable.
var celReserved = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
	"if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}

// validatingSpec compiles in the order in which expressions may see each other: a match condition sees no variable, a variable only those
// before it, validations and audit annotations all.
func validatingSpec(name string, s *admissionregistrationv1.ValidatingAdmissionPolicySpec, spec *field.Path) (errs field.ErrorList) {
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	c := newCompiler(s.ParamKind != nil, len(s.Variables) > 0)
	add(policyStart(s.FailurePolicy, s.ParamKind, s.MatchConstraints, spec))
	add(matchConditions(s.ParamKind != nil, s.MatchConditions, spec.Child("matchConditions")))
	add(variables(c, s.Variables, spec.Child("variables")))
	if len(s.Validations)+len(s.AuditAnnotations) == 0 {
		says := "validations or auditAnnotations must contain at least one item"
		add(field.ErrorList{field.Required(spec.Child("validations"), says), field.Required(spec.Child("auditAnnotations"), says)})
		return errs
	}
	for i, v := range s.Validations {
		add(validationRule(c, v, spec.Child("validations").Index(i)))
	}
	return append(errs, annotations(c, name, s.AuditAnnotations, spec.Child("auditAnnotations"))...)
}

// mutatingSpec is validatingSpec for policies that change objects (KEP-3962). A reinvocationPolicy has no default: its author must say
// whether the policy bears to be run twice.
func mutatingSpec(s *admissionregistrationv1.MutatingAdmissionPolicySpec, spec *field.Path) (errs field.ErrorList) {
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	c := newCompiler(s.ParamKind != nil, true)
	add(policyStart(s.FailurePolicy, s.ParamKind, s.MatchConstraints, spec))
	add(mutable(s.MatchConstraints, spec.Child("matchConstraints")))
	add(matchConditions(s.ParamKind != nil, s.MatchConditions, spec.Child("matchConditions")))
	add(variables(c, s.Variables, spec.Child("variables")))
	if len(s.Mutations) == 0 {
		add(field.ErrorList{field.Required(spec.Child("mutations"), "mutations must contain at least one item")})
	}
	for i, m := range s.Mutations {
		add(mutation(c, m, spec.Child("mutations").Index(i)))
	}
	return append(errs, rule.Chosen(s.ReinvocationPolicy, spec.Child("reinvocationPolicy"),
		admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy)...)
}

// policyStart checks what both kinds of policies begin with.
func policyStart(failure *admissionregistrationv1.FailurePolicyType, kind *admissionregistrationv1.ParamKind,
	match *admissionregistrationv1.MatchResources, spec *field.Path) (errs field.ErrorList) {
	if failure == nil {
		errs = append(errs, field.Required(spec.Child("failurePolicy"), ""))
	}
	errs = append(errs, rule.AmongPtr(failure, spec.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	if kind != nil {
		errs = append(errs, paramKind(kind, spec.Child("paramKind"))...)
	}
	if match == nil {
		return append(errs, field.Required(spec.Child("matchConstraints"), ""))
	}
	at := spec.Child("matchConstraints")
	errs = append(errs, matchResources(match, at)...)
	if len(match.ResourceRules) == 0 {
		errs = append(errs, field.Required(at.Child("resourceRules"), ""))
	}
	return errs
}

// paramKind is checked by form alone: the kind may be defined after the policy that takes its parameters from it.
func paramKind(k *admissionregistrationv1.ParamKind, path *field.Path) (errs field.ErrorList) {
	version := path.Child("apiVersion")
	if k.APIVersion == "" {
		errs = append(errs, field.Required(version, ""))
	} else if gv, err := schema.ParseGroupVersion(k.APIVersion); err != nil {
		errs = append(errs, field.Invalid(version, k.APIVersion, err.Error()))
	} else {
		if gv.Group != "" {
			errs = append(errs, rule.Says(validation.IsDNS1123Subdomain(gv.Group), k.APIVersion, version)...)
		}
		errs = append(errs, rule.Says(validation.IsDNS1035Label(gv.Version), k.APIVersion, version)...)
	}
	return append(errs, rule.NeededFormat(k.Kind, path.Child("kind"), func(s string) []string {
		says := validation.IsDNS1035Label(strings.ToLower(s))
		for i := range says {
			says[i] = "may have mixed case, but should otherwise match: " + says[i]
		}
		return says
	})...)
}

// matchResources requires the fields that defaultMatch fills in, as upstream: who builds an object past the defaults hears of them.
func matchResources(m *admissionregistrationv1.MatchResources, path *field.Path) (errs field.ErrorList) {
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(path.Child("matchPolicy"), ""))
	}
	errs = append(errs, rule.AmongPtr(m.MatchPolicy, path.Child("matchPolicy"), admissionregistrationv1.Exact,
		admissionregistrationv1.Equivalent)...)
	if m.NamespaceSelector == nil {
		errs = append(errs, field.Required(path.Child("namespaceSelector"), ""))
	}
	errs = append(errs, rule.Selector(m.NamespaceSelector, path.Child("namespaceSelector"))...)
	if m.ObjectSelector == nil {
		errs = append(errs, field.Required(path.Child("objectSelector"), ""))
	}
	errs = append(errs, rule.Selector(m.ObjectSelector, path.Child("objectSelector"))...)
	errs = append(errs, namedRules(m.ResourceRules, path.Child("resourceRules"))...)
	return append(errs, namedRules(m.ExcludeResourceRules, path.Child("excludeResourceRules"))...)
}

// namedRules are rules of webhooks that may also name single objects.
func namedRules(list []admissionregistrationv1.NamedRuleWithOperations, path *field.Path) (errs field.ErrorList) {
	for i, r := range list {
		at := path.Index(i)
		seen := sets.New[string]()
		for k, n := range r.ResourceNames {
			name := at.Child("resourceNames").Index(k)
			errs = append(errs, segment(n, name)...)
			if seen.Has(n) {
				errs = append(errs, field.Duplicate(name, n))
			}
			seen.Insert(n)
		}
		errs = append(errs, ruleWithOperations(r.RuleWithOperations, at)...)
	}
	return errs
}

func segment(name string, path *field.Path) field.ErrorList {
	return rule.Format(name, path, func(s string) []string { return rule.PathSegment(s, false) })
}

// matchConditions checks the conditions of webhooks and policies alike.
func matchConditions(params bool, list []admissionregistrationv1.MatchCondition, path *field.Path) (errs field.ErrorList) {
	if len(list) > maxConditions {
		errs = append(errs, field.TooMany(path, len(list), maxConditions))
	}
	c, seen := newCompiler(params, false), map[string]bool{}
	for i, m := range list {
		at := path.Index(i)
		errs = append(errs, c.bare(m.Expression, at.Child("expression"), wantBool)...)
		errs = append(errs, rule.NeededFormat(m.Name, at.Child("name"), validation.IsQualifiedName)...)
		if m.Name != "" && seen[m.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), m.Name))
		}
		seen[m.Name] = true
	}
	return errs
}

// variables become fields of the CEL object `variables`, so a name must be an identifier and no word of the language. Each is known to
// the compiler from here on.
func variables(c *compiler, list []admissionregistrationv1.Variable, path *field.Path) (errs field.ErrorList) {
	for i, v := range list {
		at := path.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !celIdentifier.MatchString(v.Name) || slices.Contains(celReserved, v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		errs = append(errs, c.variable(v.Name, v.Expression, at.Child("expression"))...)
	}
	return errs
}

var reasons = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
	metav1.StatusReasonRequestEntityTooLarge}

// validationRule is one rule with what is said when it fails. The message becomes part of a warning header or of a line in the audit log:
// it has no line breaks.
func validationRule(c *compiler, v admissionregistrationv1.Validation, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, c.expression(v.Expression, path.Child("expression"), wantBool)...)
	switch at := path.Child("messageExpression"); {
	case v.MessageExpression == "":
	case strings.TrimSpace(v.MessageExpression) == "":
		errs = append(errs, field.Invalid(at, v.MessageExpression, "must be non-empty if specified"))
	default:
		errs = append(errs, c.expression(v.MessageExpression, at, wantMessage)...)
	}
	text := strings.TrimSpace(v.Message)
	switch message := path.Child("message"); {
	case v.Message != "" && text == "":
		errs = append(errs, field.Invalid(message, v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(text, "\n\r"):
		errs = append(errs, field.Invalid(message, v.Message, "must not contain line breaks"))
	}
	return append(errs, rule.AmongPtr(v.Reason, path.Child("reason"), reasons...)...)
}

// annotations checks what goes into the audit log, under keys that begin with the name of the policy.
func annotations(c *compiler, policy string, list []admissionregistrationv1.AuditAnnotation, path *field.Path) (errs field.ErrorList) {
	if len(list) > maxAnnotations {
		errs = append(errs, field.Invalid(path, list, "must not have more than 20 auditAnnotations"))
	}
	seen := map[string]bool{}
	for i, a := range list {
		key := path.Index(i).Child("key")
		if policy == "" {
			errs = append(errs, field.Invalid(key, a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, rule.Format(policy+"/"+a.Key, key, validation.IsQualifiedName)...)
		}
		if seen[a.Key] {
			errs = append(errs, field.Duplicate(key, a.Key))
		}
		seen[a.Key] = true
		value := path.Index(i).Child("valueExpression")
		if len(strings.TrimSpace(a.ValueExpression)) > maxAnnotationValue {
			errs = append(errs, field.Required(value, "must not exceed 5120 bytes in length"))
			continue
		}
		if strings.TrimSpace(a.ValueExpression) == "" {
			errs = append(errs, field.Required(value, "valueExpression is not specified"))
			continue
		}
		errs = append(errs, c.expression(a.ValueExpression, value, wantStringOrNull)...)
	}
	return errs
}

// mutation has the one expression that its patchType names: an apply configuration is merged as server-side apply does, a JSON patch is
// carried out step by step.
func mutation(c *compiler, m admissionregistrationv1.Mutation, path *field.Path) (errs field.ErrorList) {
	conf, patch := path.Child("applyConfiguration"), path.Child("jsonPatch")
	switch m.PatchType {
	case "":
		errs = append(errs, field.Required(path.Child("patchType"), ""))
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(conf, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs, c.bare(m.ApplyConfiguration.Expression, conf.Child("expression"), wantObject)...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(patch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	case admissionregistrationv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(patch, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, c.bare(m.JSONPatch.Expression, patch.Child("expression"), wantPatch)...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(conf, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	default:
		errs = append(errs, rule.Among(m.PatchType, path.Child("patchType"), admissionregistrationv1.PatchTypeApplyConfiguration,
			admissionregistrationv1.PatchTypeJSONPatch)...)
	}
	return errs
}

// mutable refuses operations that leave nothing to change. Which rule has one is not told, as upstream.
func mutable(m *admissionregistrationv1.MatchResources, path *field.Path) (errs field.ErrorList) {
	if m == nil {
		return nil
	}
	for _, r := range m.ResourceRules {
		for _, o := range r.Operations {
			errs = append(errs, rule.Among(o, path.Child("resourceRules", "operations"), admissionregistrationv1.OperationAll,
				admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Connect)...)
		}
	}
	return errs
}

// binding checks the fields that both sorts of bindings share. Policies and parameters need not exist: they may come later, and until
// then the binding does nothing, or what parameterNotFoundAction says.
func binding(policy string, r *admissionregistrationv1.ParamRef, m *admissionregistrationv1.MatchResources,
	spec *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.NeededFormat(policy, spec.Child("policyName"), rule.Subdomain)...)
	if r != nil {
		errs = append(errs, paramRef(r, spec.Child("paramRef"))...)
	}
	if m != nil {
		errs = append(errs, matchResources(m, spec.Child("matchResources"))...)
	}
	return errs
}

// paramRef finds parameters by name or by labels, never both. There is no default for the case that none is found: to let requests pass
// and to refuse them can both do harm.
func paramRef(r *admissionregistrationv1.ParamRef, path *field.Path) (errs field.ErrorList) {
	name, selector := path.Child("name"), path.Child("selector")
	if r.Name != "" {
		errs = append(errs, segment(r.Name, name)...)
	}
	if r.Name != "" && r.Selector != nil {
		errs = append(errs, field.Forbidden(name, "name and selector are mutually exclusive"))
	}
	errs = append(errs, rule.Selector(r.Selector, selector)...)
	switch {
	case r.Name != "" && r.Selector != nil:
		errs = append(errs, field.Forbidden(selector, "name and selector are mutually exclusive"))
	case r.Name == "" && r.Selector == nil:
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	if r.ParameterNotFoundAction == nil || *r.ParameterNotFoundAction == "" {
		return append(errs, field.Required(path.Child("parameterNotFoundAction"), ""))
	}
	return append(errs, rule.Listed(*r.ParameterNotFoundAction, path.Child("parameterNotFoundAction"),
		admissionregistrationv1.DenyAction, admissionregistrationv1.AllowAction)...)
}

// actions may be combined, but a refusal that also warns would say the same thing twice to the same client.
func actions(on *features.Set, list []admissionregistrationv1.ValidationAction, path *field.Path) (errs field.ErrorList) {
	switch {
	case len(list) == 0 && on.AtLeast(37):
		return field.ErrorList{field.Required(path, "")}
	case len(list) == 0:
		return field.ErrorList{field.Required(path, "at least one validation action is required")}
	}
	for i, a := range list {
		errs = append(errs, rule.Among(a, path.Index(i), admissionregistrationv1.Deny, admissionregistrationv1.Warn,
			admissionregistrationv1.Audit)...)
		if slices.Contains(list[:i], a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(list, admissionregistrationv1.Deny) && slices.Contains(list, admissionregistrationv1.Warn) {
		errs = append(errs, field.Invalid(path, list,
			"must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no "+
				"purpose)"))
	}
	return errs
}

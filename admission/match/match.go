// Package match says which requests a webhook or policy is about: rules on what is done to which resource, selectors
// on the namespace and on the object.
package match

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// A Matcher selects the requests that one webhook, policy or binding is about. Safe for concurrent use.
type Matcher struct {
	rules, excluded     []admissionregistrationv1.NamedRuleWithOperations
	any                 bool // no rules stand for all requests
	equivalent          bool
	namespaces, objects selector
}

// A selector is parsed once; what can't be parsed is an error of every request that the rules match.
type selector struct {
	labels.Selector
	err error
}

func parse(s *metav1.LabelSelector) selector {
	if s == nil {
		return selector{labels.Everything(), nil}
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return selector{labels.Nothing(), apierrors.NewInternalError(err)}
	}
	return selector{parsed, nil}
}

// New returns the matcher of a policy or binding; nil matches everything. A selector that is not set selects
// everything. Without rules everything matches that the selectors select.
func New(m *admissionregistrationv1.MatchResources) *Matcher {
	if m == nil {
		return nil
	}
	return &Matcher{rules: m.ResourceRules, excluded: m.ExcludeResourceRules, any: len(m.ResourceRules) == 0,
		equivalent: m.MatchPolicy != nil && *m.MatchPolicy == admissionregistrationv1.Equivalent,
		namespaces: parse(m.NamespaceSelector), objects: parse(m.ObjectSelector)}
}

// NewHook returns the matcher of a webhook, which without rules matches nothing.
func NewHook(rules []admissionregistrationv1.RuleWithOperations, policy *admissionregistrationv1.MatchPolicyType, namespaces,
	objects *metav1.LabelSelector) *Matcher {
	m := New(&admissionregistrationv1.MatchResources{MatchPolicy: policy, NamespaceSelector: namespaces, ObjectSelector: objects})
	m.any = false
	for _, r := range rules {
		m.rules = append(m.rules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: r})
	}
	return m
}

// As tells how a request was matched: the version of its kind and resource that the rule names. With matchPolicy
// Equivalent it may be another one than the caller spoke.
type As struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
}

// Match says whether the request is one that the matcher is about, and as what. An error means that it may be.
func (m *Matcher) Match(ctx context.Context, r *admission.Request) (as As, ok bool, err error) {
	own := As{r.Spoken(), r.Resource()}
	if m == nil {
		return own, true, nil
	}
	if _, hit := m.find(m.excluded, r, own); hit {
		return own, false, nil
	}
	as = own
	if !m.any {
		if as, ok = m.find(m.rules, r, own); !ok {
			return own, false, nil
		}
	}
	inside, nsErr := m.selectsNamespace(ctx, r)
	if !inside && nsErr == nil {
		return own, false, nil
	}
	if m.objects.err == nil && !m.objects.Empty() && !selects(m.objects, r.Object) && !selects(m.objects, r.Old) {
		return own, false, nil
	}
	if nsErr != nil {
		return own, false, nsErr
	}
	return as, m.objects.err == nil, m.objects.err
}

// find returns how a request is matched by the first rule that names it as it is, else in an equivalent version.
func (m *Matcher) find(rules []admissionregistrationv1.NamedRuleWithOperations, r *admission.Request, own As) (As, bool) {
	for i := range rules {
		if hits(&rules[i], r, own.Resource) {
			return own, true
		}
	}
	if !m.equivalent {
		return own, false
	}
	for i := range rules {
		for _, gvk := range r.Kind.Info().Served() {
			other := As{own.Kind, gvk.GroupVersion().WithResource(own.Resource.Resource)}
			if other.Resource == own.Resource || !hits(&rules[i], r, other.Resource) {
				continue
			}
			if own.Kind.Kind == gvk.Kind { // else it is the body of a subresource
				other.Kind = gvk
			}
			return other, true
		}
	}
	return own, false
}

// hits says whether a rule names the request, as a request for the given resource.
func hits(rule *admissionregistrationv1.NamedRuleWithOperations, r *admission.Request, gvr schema.GroupVersionResource) bool {
	return inScope(rule.Scope, r) && does(rule.Operations, r.Op) && among(rule.APIGroups, gvr.Group) &&
		among(rule.APIVersions, gvr.Version) && slices.ContainsFunc(rule.Resources, func(text string) bool {
		res, sub, _ := strings.Cut(text, "/")
		return (res == "*" || res == gvr.Resource) && (sub == "*" || sub == r.Sub)
	}) && (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.Name))
}

func inScope(s *admissionregistrationv1.ScopeType, r *admission.Request) bool {
	if s == nil || *s == admissionregistrationv1.AllScopes {
		return true
	}
	inside := r.Namespace != "" && !isNamespaces(r)
	return inside == (*s == admissionregistrationv1.NamespacedScope)
}

func does(ops []admissionregistrationv1.OperationType, op admission.Op) bool {
	return slices.ContainsFunc(ops, func(o admissionregistrationv1.OperationType) bool {
		return o == admissionregistrationv1.OperationAll || string(o) == string(op)
	})
}

func among(list []string, s string) bool {
	return slices.Contains(list, s) || slices.Contains(list, "*")
}

func isNamespaces(r *admission.Request) bool {
	i := r.Kind.Info()
	return i.Plural == "namespaces" && i.GVK.Group == ""
}

// selectsNamespace judges the labels of the request's namespace; those of a namespace that is written are the new ones.
// Objects outside of namespaces are never left out.
func (m *Matcher) selectsNamespace(ctx context.Context, r *admission.Request) (bool, error) {
	switch {
	case r.Namespace == "" && !isNamespaces(r):
		return true, nil
	case m.namespaces.err != nil:
		return false, m.namespaces.err
	case m.namespaces.Empty():
		return true, nil
	}
	if isNamespaces(r) && r.Sub == "" && r.Object != nil {
		return selects(m.namespaces, r.Object), nil
	}
	ns, err := Namespace(ctx, r)
	if err != nil {
		return false, err
	}
	return selects(m.namespaces, ns), nil
}

// Namespace returns the namespace of a request; its error is NotFound when there is none.
func Namespace(ctx context.Context, r *admission.Request) (resource.Object, error) {
	if ns := r.Read.Lookup(core.Namespaces, "", r.Namespace); ns != nil {
		return ns, nil
	}
	if r.Live != nil {
		ns, err := r.Live(ctx, core.Namespaces, "", r.Namespace)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if ns != nil {
			return ns, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, r.Namespace)
}

func selects(s labels.Selector, obj resource.Object) bool {
	return obj != nil && s.Matches(labels.Set(obj.GetLabels()))
}

package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/admission/match"
	"github.com/kloop-dev/kloop/resource"
)

// A rule is a policy that has bindings. Its expressions are compiled when a request first matches it.
type rule struct {
	name     string
	matcher  *match.Matcher // nil: the policy does not say what it is about
	ignore   bool           // failurePolicy
	kind     *admissionregistrationv1.ParamKind
	bindings []*binding

	once       sync.Once
	compile    func(*rule)
	scope      *cel.Scope
	conditions *cel.MatchConditions

	validations []validation // of a validating policy
	annotations []annotation

	mutations []mutation // of a mutating policy
	again     bool       // it may run twice
}

// A binding puts a policy in force.
type binding struct {
	name    string
	match   *match.Matcher
	params  *admissionregistrationv1.ParamRef
	actions []admissionregistrationv1.ValidationAction
}

// A use is a rule that applies to a request by one of its bindings.
type use struct {
	*rule
	binding *binding
	as      match.As
	params  []runtime.Object // to evaluate the rule with, one after the other; nil stands for none
}

func (r *rule) matches(ctx context.Context, q *admission.Request) (match.As, bool, error) {
	if r.matcher == nil {
		return match.As{}, false, errors.New("policy contained no match constraints, a required field")
	}
	return r.matcher.Match(ctx, q)
}

func (r *rule) compiled() *rule {
	r.once.Do(func() { r.compile(r) })
	return r
}

// scoped begins to compile: variables first, then the match conditions.
func (r *rule) scoped(variables []admissionregistrationv1.Variable, conditions []admissionregistrationv1.MatchCondition,
	fail *admissionregistrationv1.FailurePolicyType) {
	r.scope = cel.NewScope(cel.Declared{Params: r.kind != nil, Authorizer: true, Variables: true})
	for _, v := range variables {
		r.scope.Variable(v.Name, v.Expression)
	}
	r.conditions = r.scope.MatchConditions(conditions, fail)
}

func newRule(name string, constraints *admissionregistrationv1.MatchResources, kind *admissionregistrationv1.ParamKind,
	fail *admissionregistrationv1.FailurePolicyType, compile func(*rule)) *rule {
	return &rule{name: name, matcher: match.New(constraints), kind: kind, ignore: fail != nil &&
		*fail == admissionregistrationv1.Ignore, compile: compile}
}

// A source reads the policies of one sort that are in force.
type source struct {
	policies, bindings resource.Kind
	rule               func(policy resource.Object) *rule
	bind               func(obj resource.Object) (policy string, b *binding)

	mu   sync.Mutex // held while a new set is made
	last atomic.Pointer[set]
}

// A set holds the policies in force at some moment, and the objects it was compiled from.
type set struct {
	policies, bindings []resource.Object
	rules              []*rule
	bound              map[resource.Object]*rule // by policy, without bindings
}

// of returns the policies in force, by name. Objects of a state never change, so the same objects mean the same rules.
func (s *source) of(read resource.Reader) []*rule {
	last := s.last.Load()
	if last == nil {
		last = &set{}
	}
	if s.current(read, last) {
		return last.rules
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.last.Load(); last != nil && s.current(read, last) {
		return last.rules
	}
	made := s.read(read, last)
	s.last.Store(made)
	return made.rules
}

func (s *source) current(read resource.Reader, last *set) bool {
	if !holds(read, s.bindings, last.bindings) {
		return false
	}
	return len(last.bindings) == 0 || holds(read, s.policies, last.policies)
}

// holds says that the objects of a kind are those in the list.
func holds(read resource.Reader, k resource.Kind, list []resource.Object) bool {
	n := 0
	for obj := range read.Each(k, "") {
		if n == len(list) || list[n] != obj {
			return false
		}
		n++
	}
	return n == len(list)
}

func (s *source) read(read resource.Reader, last *set) *set {
	made := &set{bound: map[resource.Object]*rule{}}
	byName := map[string][]*binding{}
	for obj := range read.Each(s.bindings, "") {
		made.bindings = append(made.bindings, obj)
		name, b := s.bind(obj)
		byName[name] = append(byName[name], b)
	}
	for obj := range read.Each(s.policies, "") {
		made.policies = append(made.policies, obj)
		bindings := byName[obj.GetName()]
		if len(bindings) == 0 {
			continue
		}
		one := last.bound[obj]
		if one == nil {
			one = s.rule(obj)
		}
		made.bound[obj] = one
		made.rules = append(made.rules, one.with(bindings))
	}
	slices.SortFunc(made.rules, func(a, b *rule) int { return cmp.Compare(a.name, b.name) })
	return made
}

// with returns a rule with other bindings, which shares what was compiled.
func (r *rule) with(bindings []*binding) *rule {
	shared := r
	return &rule{name: r.name, matcher: r.matcher, ignore: r.ignore, kind: r.kind, bindings: bindings, compile: func(to *rule) {
		from := shared.compiled()
		to.scope, to.conditions, to.validations, to.annotations = from.scope, from.conditions, from.validations, from.annotations
		to.mutations, to.again = from.mutations, from.again
	}}
}

func wrap(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }

func newBinding(name string, m *admissionregistrationv1.MatchResources, params *admissionregistrationv1.ParamRef,
	actions []admissionregistrationv1.ValidationAction) *binding {
	return &binding{name: name, match: match.New(m), params: params, actions: actions}
}

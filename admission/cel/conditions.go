package cel

import (
	"context"

	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// MatchConditions narrow down what a webhook or a policy is asked about: all must be true. Safe for concurrent use.
type MatchConditions struct {
	scope    *Scope
	names    []string
	programs []*Program
	ignore   bool
}

// NewMatchConditions compiles the conditions of a webhook: it declares the authorizer and no params, no variables.
// What does not compile is an error of every evaluation. It returns nil, which matches everything, for no conditions.
func NewMatchConditions(list []admissionregistrationv1.MatchCondition, fail *admissionregistrationv1.FailurePolicyType) *MatchConditions {
	if len(list) == 0 {
		return nil
	}
	return NewScope(Declared{Authorizer: true}).MatchConditions(list, fail)
}

// MatchConditions compiles conditions in a scope. It returns nil, which matches everything, for no conditions.
func (s *Scope) MatchConditions(list []admissionregistrationv1.MatchCondition,
	fail *admissionregistrationv1.FailurePolicyType) *MatchConditions {
	if len(list) == 0 {
		return nil
	}
	m := &MatchConditions{scope: s, ignore: fail != nil && *fail == admissionregistrationv1.Ignore}
	for _, c := range list {
		m.names = append(m.names, c.Name)
		m.programs = append(m.programs, s.Compile(c.Expression, Bool))
	}
	return m
}

// Match evaluates the conditions. One that is false settles it: no match, and its name. Else an error is returned if
// the failure policy is Fail; if it is Ignore, there is no match.
func (m *MatchConditions) Match(ctx context.Context, in *Input) (match bool, unmet string, err error) {
	if m == nil {
		return true, "", nil
	}
	run := in.Run(ctx, m.scope, ConditionsBudget)
	var errs []error
	for i, p := range m.programs {
		v, fatal, err := run.Eval(p)
		switch {
		case fatal:
			return m.failed(err)
		case err != nil:
			errs = append(errs, err)
		case v == types.False:
			return false, m.names[i], nil
		}
	}
	if len(errs) > 0 {
		return m.failed(utilerrors.NewAggregate(errs))
	}
	return true, "", nil
}

func (m *MatchConditions) failed(err error) (bool, string, error) {
	if m.ignore {
		return false, "", nil
	}
	return false, "", err
}

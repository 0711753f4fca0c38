package cel

import (
	"context"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// The budgets of runs, in upstream's units of cost. One expression may spend celconfig.PerCallLimit at most.
const (
	Budget           = celconfig.RuntimeCELCostBudget                // of one binding's validations or mutations
	ConditionsBudget = celconfig.RuntimeCELCostBudgetMatchConditions // of one set of match conditions
)

// A Run evaluates expressions of one scope over one input, within one budget. For one goroutine.
type Run struct {
	ctx  context.Context
	in   *Input
	vars ref.Val // nil: the scope has none
	left int64
	lazy int64 // spent by variables since the last expression began
}

// Run begins a sequence of evaluations that may spend budget. It ends when ctx does.
func (in *Input) Run(ctx context.Context, s *Scope, budget int64) *Run {
	r := &Run{ctx: ctx, in: in, left: budget}
	if s.vars != nil {
		r.vars = s.vars.value(r)
	}
	return r
}

// Left is the rest of the budget.
func (r *Run) Left() int64 { return r.left }

// Eval evaluates an expression. fatal says that the error ends the run: the budget is spent, or nobody waits for it any more.
func (r *Run) Eval(p *Program) (v ref.Val, fatal bool, err error) {
	if p.err != nil {
		return nil, false, fault(apiservercel.ErrorTypeInvalid, p.err, "compilation error: %v", p.err)
	}
	if err := r.ctx.Err(); err != nil {
		return nil, true, err
	}
	v, details, err := p.run.ContextEval(r.ctx, r)
	lazy := r.lazy
	r.lazy = 0
	var spent *uint64
	if details != nil {
		spent = details.ActualCost()
	}
	if spent == nil {
		return nil, true, fault(apiservercel.ErrorTypeInternal, nil,
			"runtime cost could not be calculated for expression: %v, no further expression will be run", p.text)
	}
	if lazy > r.left || *spent > math.MaxInt64 || int64(*spent) > r.left-lazy {
		return nil, true, fault(apiservercel.ErrorTypeInvalid, apiservercel.ErrOutOfBudget,
			"validation failed due to running out of cost budget, no further validation rules will be run")
	}
	r.left -= lazy + int64(*spent)
	if err != nil {
		return nil, false, fault(apiservercel.ErrorTypeInvalid, nil, "expression '%v' resulted in error: %v", p.text, err)
	}
	return v, false, nil
}

// variable evaluates a variable that an expression asks for.
func (r *Run) variable(name string, p *Program) ref.Val {
	if p.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", name, p.err)
	}
	v, details, err := p.run.ContextEval(r.ctx, r)
	if details == nil || details.ActualCost() == nil {
		return types.NewErr("unable to calculate cost of variable %q", name)
	}
	if spent := *details.ActualCost(); spent > uint64(math.MaxInt64-r.lazy) {
		r.lazy = math.MaxInt64
	} else {
		r.lazy += int64(spent)
	}
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", name, err)
	}
	return v
}

// ResolveName implements the interpreter's Activation.
func (r *Run) ResolveName(name string) (any, bool) {
	if name == "variables" {
		return r.vars, r.vars != nil
	}
	return r.in.resolve(r.ctx, name)
}

// Parent implements the interpreter's Activation.
func (r *Run) Parent() interpreter.Activation { return nil }

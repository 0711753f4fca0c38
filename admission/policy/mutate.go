package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/admission/match"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/resource"
)

func newMutating() *source {
	return &source{
		policies: admissionregistration.MutatingAdmissionPolicies, bindings: admissionregistration.MutatingAdmissionPolicyBindings,
		rule: func(obj resource.Object) *rule {
			p := obj.(*admissionregistrationv1.MutatingAdmissionPolicy)
			return newRule(p.Name, p.Spec.MatchConstraints, p.Spec.ParamKind, p.Spec.FailurePolicy,
				func(r *rule) { compileMutating(r, &p.Spec) })
		},
		bind: func(obj resource.Object) (string, *binding) {
			b := obj.(*admissionregistrationv1.MutatingAdmissionPolicyBinding)
			return b.Spec.PolicyName, newBinding(b.Name, b.Spec.MatchResources, b.Spec.ParamRef, nil)
		},
	}
}

func compileMutating(r *rule, spec *admissionregistrationv1.MutatingAdmissionPolicySpec) {
	r.again = spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
	r.scoped(spec.Variables, spec.MatchConditions, spec.FailurePolicy)
	for _, m := range spec.Mutations {
		switch {
		case m.PatchType == admissionregistrationv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			r.mutations = append(r.mutations, mutation{patch: r.scope.CompilePatch(m.JSONPatch.Expression, cel.Patch)})
		case m.PatchType == admissionregistrationv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			r.mutations = append(r.mutations, mutation{overlay: r.scope.CompilePatch(m.ApplyConfiguration.Expression, cel.Applied)})
		}
	}
}

// invoked carries from the first pass to the second which uses of policies took part and may do so again.
type invoked map[string]bool

// mutate lets all mutating policies change the request's object, one after the other. In the second pass those run
// again that took part in the first and are to see what others did since.
func (p *Policies) mutate(ctx context.Context, r *admission.Request) error {
	if isExempt(r) {
		return nil
	}
	rules := p.mutating.of(r.Read)
	if len(rules) == 0 {
		return nil
	}
	memory, _ := r.Memory[Mutating].(invoked)
	if memory == nil {
		if memory = (invoked{}); r.Memory == nil {
			r.Memory = map[string]any{}
		}
		r.Memory[Mutating] = memory
	}
	c := &changing{Policies: p, r: r, inputs: inputs{r: r, authz: p.Authorize}, memory: memory}
	var uses []*use
	if err := p.each(ctx, r, rules, c.fail, func(u *use) error { uses = append(uses, u); return nil }); err != nil {
		return err
	}
	// All are matched before the first changes anything.
	for _, u := range uses {
		if err := cmp.Or(c.change(ctx, u), ended(ctx)); err != nil {
			return err
		}
	}
	return c.refused()
}

// changing is the mutation of one request by all policies.
type changing struct {
	*Policies
	inputs
	r      *admission.Request
	memory invoked
	failed []refused
}

// refused is why a request is refused.
type refused struct {
	text   string
	reason metav1.StatusReason // "": Forbidden
}

func (c *changing) fail(f refusal) {
	if f.rule.ignore {
		return
	}
	one := refused{text: fmt.Sprintf("policy %q denied request: %s", f.rule.name, f.err)}
	if f.binding != nil {
		one.text = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", f.rule.name, f.binding.name, f.err)
		var misuse *evaluationError
		if errors.As(f.err, &misuse) {
			one.reason = metav1.StatusReasonInvalid
		}
	}
	c.failed = append(c.failed, one)
}

// evaluationError marks what went wrong in an expression or its patch.
type evaluationError struct{ error }

// Unwrap implements errors.
func (e *evaluationError) Unwrap() error { return e.error }

// refused puts all failures into one answer.
func (c *changing) refused() error {
	if len(c.failed) == 0 {
		return nil
	}
	err := c.r.Forbidden(errors.New("admission request denied by policy"))
	err.ErrStatus.Message = c.failed[0].text
	if reason := c.failed[0].reason; reason != "" {
		err.ErrStatus.Reason = reason
	}
	for _, f := range c.failed {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: f.text})
	}
	return err
}

// change lets one use of a policy change the object, with each of its parameters.
func (c *changing) change(ctx context.Context, u *use) error {
	ns, err := c.namespace(ctx)
	if err != nil {
		return err
	}
	for _, params := range u.params {
		key := u.name + "\x00" + u.binding.name + "\x00" + nameOf(params)
		if c.r.Round > 0 && !c.memory[key] {
			continue
		}
		in, err := c.input(ctx, u.as)
		if err != nil {
			c.fail(refusal{u.rule, u.binding, wrap("failed to convert object version", err)})
			continue
		}
		in.SetParams(params)
		match, _, err := u.compiled().meets(ctx, in)
		if err != nil {
			c.fail(refusal{u.rule, u.binding, &evaluationError{err}})
			continue
		}
		if !match {
			continue
		}
		if err := c.run(ctx, u, in, ns); err != nil {
			return err
		}
		if u.again {
			c.memory[key] = true
		}
	}
	return nil
}

func nameOf(params runtime.Object) string {
	if params == nil {
		return ""
	}
	m, err := meta.Accessor(params)
	if err != nil {
		return ""
	}
	return m.GetNamespace() + "/" + m.GetName()
}

// run performs the mutations of a rule in order. The error is one that refuses the request whatever the policy says.
func (c *changing) run(ctx context.Context, u *use, in *cel.Input, ns *corev1.Namespace) error {
	before, ok := in.Object.(resource.Object)
	if !ok { // nothing to change
		return nil
	}
	in.SetNamespace(ns)
	for _, m := range u.mutations {
		next, err := c.mutated(ctx, u.rule, m, in)
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status):
			return err
		case err != nil:
			c.fail(refusal{u.rule, u.binding, &evaluationError{err}})
		default:
			in.SetObject(next)
		}
	}
	after := in.Object.(resource.Object)
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	c.r.Again = true
	return c.adopt(ctx, u.as, before, after)
}

// adopt makes the request's object what the mutations made of it, and forgets how it looked before.
func (c *changing) adopt(ctx context.Context, as match.As, before, after resource.Object) error {
	keep := c.made[as]
	defer func() { c.made = map[match.As]*cel.Input{as: keep} }()
	hub, err := cel.Adopt(ctx, c.r, before, after)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	c.r.Object = hub
	return nil
}

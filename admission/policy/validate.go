package policy

import (
	"context"
	"fmt"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/cel"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/resource"
)

func newValidating() *source {
	return &source{
		policies: admissionregistration.ValidatingAdmissionPolicies, bindings: admissionregistration.ValidatingAdmissionPolicyBindings,
		rule: func(obj resource.Object) *rule {
			p := obj.(*admissionregistrationv1.ValidatingAdmissionPolicy)
			return newRule(p.Name, p.Spec.MatchConstraints, p.Spec.ParamKind, p.Spec.FailurePolicy,
				func(r *rule) { compileValidating(r, &p.Spec) })
		},
		bind: func(obj resource.Object) (string, *binding) {
			b := obj.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
			return b.Spec.PolicyName, newBinding(b.Name, b.Spec.MatchResources, b.Spec.ParamRef, b.Spec.ValidationActions)
		},
	}
}

func compileValidating(r *rule, spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
	r.scoped(spec.Variables, spec.MatchConditions, spec.FailurePolicy)
	for _, v := range spec.Validations {
		one := validation{Validation: v, holds: r.scope.Compile(v.Expression, cel.Bool)}
		if v.MessageExpression != "" {
			one.message = r.scope.Compile(v.MessageExpression, cel.String)
		}
		r.validations = append(r.validations, one)
	}
	for _, a := range spec.AuditAnnotations {
		r.annotations = append(r.annotations, annotation{a.Key, r.scope.Compile(a.ValueExpression, cel.StringOrNull)})
	}
}

// validate judges a request by all validating policies.
func (p *Policies) validate(ctx context.Context, r *admission.Request) error {
	if isExempt(r) {
		return nil
	}
	rules := p.validating.of(r.Read)
	if len(rules) == 0 {
		return nil
	}
	j := &judgement{r: r, inputs: inputs{r: r, authz: p.Authorize}, notes: notes{}}
	err := p.each(ctx, r, rules, func(f refusal) {
		if !f.rule.ignore {
			j.deny(f.rule, f.binding, decision{message: f.err.Error()})
		}
	}, func(u *use) error { return j.judge(ctx, u) })
	if err != nil {
		return err
	}
	j.publish()
	return j.denied
}

// A judgement is the validation of one request by all policies. All are asked, whatever the first says.
type judgement struct {
	inputs
	r        *admission.Request
	denied   error // the first denial
	failures []failure
	notes    notes
}

// judge evaluates one use of a policy with each of its parameters.
func (j *judgement) judge(ctx context.Context, u *use) error {
	in, err := j.input(ctx, u.as)
	if err != nil {
		if !u.ignore {
			j.deny(u.rule, u.binding, decision{message: "failed to configure binding: failed to convert object version: " + err.Error()})
		}
		return nil
	}
	ns, err := j.namespace(ctx)
	if err != nil {
		return err
	}
	for _, params := range u.params {
		in.SetParams(params)
		verdict := u.compiled().evaluate(ctx, in, ns)
		for _, d := range verdict.decisions {
			j.act(u, d)
		}
		for _, n := range verdict.notes {
			if n.err != nil {
				j.deny(u.rule, u.binding, decision{message: n.err.Error()})
				continue
			}
			j.notes.add(u.name+"/"+n.key, n.value)
		}
	}
	return nil
}

// act does to a request that fails a validation what the binding says.
func (j *judgement) act(u *use, d decision) {
	for _, action := range u.binding.actions {
		switch action {
		case admissionregistrationv1.Deny:
			j.deny(u.rule, u.binding, d)
		case admissionregistrationv1.Audit:
			j.failures = append(j.failures, failure{Message: d.message, Policy: u.name, Binding: u.binding.name,
				ExpressionIndex: d.index, ValidationActions: u.binding.actions})
		case admissionregistrationv1.Warn:
			if j.r.Warn != nil {
				j.r.Warn(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", u.name, u.binding.name, d.message))
			}
		}
	}
}

// deny keeps the first denial as the answer.
func (j *judgement) deny(r *rule, b *binding, d decision) {
	if j.denied != nil {
		return
	}
	text := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", r.name, d.message)
	if b != nil {
		text = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", r.name, b.name, d.message)
	}
	err := j.r.Forbidden(fmt.Errorf("%s", text))
	if err.ErrStatus.Reason = d.reason; d.reason == "" {
		err.ErrStatus.Reason = metav1.StatusReasonInvalid
	}
	err.ErrStatus.Code = codeOf(err.ErrStatus.Reason)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	j.denied = err
}

func codeOf(r metav1.StatusReason) int32 {
	switch r {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

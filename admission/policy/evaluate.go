package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/kloop-dev/kloop/admission/cel"
)

// A validation is a compiled validation of a policy.
type validation struct {
	admissionregistrationv1.Validation
	holds   *cel.Program
	message *cel.Program // nil: there is no expression
}

// An annotation is a compiled audit annotation of a policy.
type annotation struct {
	key   string
	value *cel.Program
}

// A decision is that a validation failed.
type decision struct {
	index   int
	message string
	reason  metav1.StatusReason
}

// A verdict is a policy's answer to a request with one set of parameters.
type verdict struct {
	decisions []decision
	notes     []note
}

// evaluate runs the validations and audit annotations of a rule. in has the parameters set.
func (r *rule) evaluate(ctx context.Context, in *cel.Input, ns *corev1.Namespace) (v verdict) {
	match, _, err := r.meets(ctx, in)
	switch {
	case err != nil:
		return r.broken(err)
	case !match:
		return v
	}
	in.SetNamespace(ns)
	run := in.Run(ctx, r.scope, cel.Budget)
	var failed []int
	for i := range r.validations {
		held, fatal, err := run.Eval(r.validations[i].holds)
		switch {
		case fatal:
			return r.broken(err)
		case err != nil && !r.ignore:
			v.decisions = append(v.decisions, decision{index: i, message: err.Error()})
		case err == nil && held != types.True:
			failed = append(failed, len(v.decisions))
			v.decisions = append(v.decisions, decision{index: i, reason: reasonOf(&r.validations[i])})
		}
	}
	// Unlike Kubernetes, a messageExpression is evaluated only if its validation failed.
	messages := in.Run(ctx, r.scope, run.Left())
	for _, i := range failed {
		d := &v.decisions[i]
		if d.message, err = r.validations[d.index].say(messages); err != nil {
			d.message, d.reason = fmt.Sprintf("failed messageExpression: %s", err), ""
		}
	}
	if v.notes, err = r.annotate(ctx, in); err != nil {
		return r.broken(err)
	}
	return v
}

// meets evaluates the match conditions, which are not shown the namespace.
func (r *rule) meets(ctx context.Context, in *cel.Input) (bool, string, error) {
	in.SetNamespace(nil)
	return r.conditions.Match(ctx, in)
}

// broken is the verdict when a policy can't be evaluated.
func (r *rule) broken(err error) (v verdict) {
	if !r.ignore {
		v.decisions = []decision{{message: err.Error()}}
	}
	return v
}

func reasonOf(v *validation) metav1.StatusReason {
	if v.Reason == nil {
		return metav1.StatusReasonInvalid
	}
	return *v.Reason
}

// say words a failure: by the message expression if it makes one line of bearable length, else by the message, else
// by the expression. The error says that the budget is spent.
func (v *validation) say(run *cel.Run) (string, error) {
	if v.message != nil {
		said, fatal, err := run.Eval(v.message)
		if fatal {
			return "", err
		}
		if err == nil {
			text, _ := said.Value().(string)
			text = strings.TrimSpace(text)
			if text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
				return text, nil
			}
		}
	}
	if text := strings.TrimSpace(v.Message); text != "" {
		return text, nil
	}
	return "failed expression: " + strings.TrimSpace(v.Expression), nil
}

// annotate evaluates the audit annotations. The error says that the budget is spent.
func (r *rule) annotate(ctx context.Context, in *cel.Input) (list []note, err error) {
	if len(r.annotations) == 0 {
		return nil, nil
	}
	run := in.Run(ctx, r.scope, cel.Budget)
	for _, a := range r.annotations {
		v, fatal, err := run.Eval(a.value)
		switch {
		case fatal:
			return nil, err
		case err != nil && !r.ignore:
			list = append(list, note{key: a.key, err: err})
		case err != nil:
		default:
			text, _ := v.Value().(string) // or null, which is none
			if text = strings.TrimSpace(text); text != "" {
				list = append(list, note{key: a.key, value: text})
			}
		}
	}
	return list, nil
}

// Package policy judges and changes requests by ValidatingAdmissionPolicies and MutatingAdmissionPolicies (KEP-3488,
// KEP-3962). A policy says what; its bindings say where, with which parameters, and what happens to a request that fails.
//
// Policies are read from the same state as everything else and compiled when a request first meets them, once per
// revision: a policy is in force as soon as it is stored. A cluster without bindings pays for two empty lookups.
//
// A Checker tells authors of policies which expressions can't fit the types they are about.
package policy

import (
	"cmp"
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// Config holds the dependencies of policies beyond the request.
type Config struct {
	// Kinds finds the kinds of parameters; required.
	Kinds *resource.Set
	// Authorize answers expressions that ask for permissions; required.
	Authorize auth.Authorizer
	// Overlay merges fields into a copy of an object without owning them: apply.Tracker has it. Without it, apply
	// configurations of mutating policies fail.
	Overlay func(k resource.Kind, live resource.Object, fields map[string]any) (resource.Object, error)
}

// Policies are the two plugins. Safe for concurrent use.
type Policies struct {
	Config
	validating, mutating *source
}

// New returns the plugins of the policies that requests read.
func New(c Config) *Policies {
	return &Policies{Config: c, validating: newValidating(), mutating: newMutating()}
}

// The names of the plugins, upstream's.
const (
	Validating = "ValidatingAdmissionPolicy"
	Mutating   = "MutatingAdmissionPolicy"
)

// Validating returns the plugin of the ValidatingAdmissionPolicies.
func (p *Policies) Validating() admission.Plugin {
	return admission.Plugin{Name: Validating, Validate: p.validate}
}

// Mutating returns the plugin of the MutatingAdmissionPolicies.
func (p *Policies) Mutating() admission.Plugin {
	return admission.Plugin{Name: Mutating, Mutate: p.mutate}
}

// exempt are the resources that no policy is about: the policies themselves, and questions that are not stored.
var exempt = map[string]map[string]bool{
	"admissionregistration.k8s.io": {"validatingadmissionpolicies": true, "validatingadmissionpolicybindings": true,
		"mutatingadmissionpolicies": true, "mutatingadmissionpolicybindings": true},
	"authentication.k8s.io": {"tokenreviews": true, "selfsubjectreviews": true},
	"authorization.k8s.io": {"subjectaccessreviews": true, "localsubjectaccessreviews": true, "selfsubjectaccessreviews": true,
		"selfsubjectrulesreviews": true},
}

func isExempt(r *admission.Request) bool {
	i := r.Kind.Info()
	return exempt[i.GVK.Group][i.Plural]
}

// A refusal is why a request fails a policy: because of the policy, or of one of its bindings.
type refusal struct {
	rule    *rule
	binding *binding // nil: the policy itself
	err     error
}

// each calls f for every binding whose policy and selectors match the request, with the parameters to evaluate the
// policy with. What can't be found out goes to failed.
func (p *Policies) each(ctx context.Context, r *admission.Request, rules []*rule, failed func(refusal), f func(*use) error) error {
	for _, one := range rules {
		as, ok, err := one.matches(ctx, r)
		switch {
		case err != nil:
			failed(refusal{one, nil, wrap("failed to configure policy", err)})
			continue
		case !ok:
			continue
		}
		params, err := p.paramKind(one)
		if err != nil {
			failed(refusal{one, nil, wrap("failed to configure policy", err)})
			continue
		}
		for _, b := range one.bindings {
			_, ok, err := b.match.Match(ctx, r)
			u := &use{rule: one, binding: b, as: as}
			if ok && err == nil {
				u.params, err = params.collect(ctx, r, b.params)
			}
			switch {
			case err != nil:
				failed(refusal{one, b, wrap("failed to configure binding", err)})
			case !ok || len(u.params) == 0:
			default:
				if err := cmp.Or(f(u), ended(ctx)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ended is the answer to a request that nobody waits for any more: what was evaluated until then is no verdict.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return apierrors.NewTimeoutError("evaluate policies: "+err.Error(), 0)
	}
	return nil
}

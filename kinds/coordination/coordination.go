// Package coordination declares the kind by which processes agree on who leads and show that they live.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// Leases declares the kind.
var Leases = &resource.Def[*coordinationv1.Lease]{
	GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Plural: "leases", Namespaced: true, CreateOnUpdate: true,
	Quirks:  resource.Quirks{MetaUpdateOnly: true, NeedsRevision: true, UnqualifiedFinalizers: true},
	Prepare: resource.Serving(prepareLease), Validate: resource.Serving(validateLease),
	Columns: []resource.Column[*coordinationv1.Lease]{
		resource.Col("Holder", "string", func(l *coordinationv1.Lease) any {
			if l.Spec.HolderIdentity == nil {
				return ""
			}
			return *l.Spec.HolderIdentity
		}),
		resource.Age[*coordinationv1.Lease](),
	},
}

// prepareLease drops the fields of coordinated leader election, which is off by default upstream too.
func prepareLease(l, old *coordinationv1.Lease) {
	if old != nil && (old.Spec.Strategy != nil || old.Spec.PreferredHolder != nil) {
		return
	}
	l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil
}

func validateLease(l, _ *coordinationv1.Lease) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if d := l.Spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		errs = append(errs, field.Invalid(spec.Child("leaseDurationSeconds"), *d, "must be greater than 0"))
	}
	if n := l.Spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(spec.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	return append(errs, preferred(&l.Spec, spec)...)
}

// preferred belongs to coordinated leader election (KEP-4355): only with a strategy somebody else chooses the holder.
func preferred(s *coordinationv1.LeaseSpec, spec *field.Path) (errs field.ErrorList) {
	if s.Strategy != nil {
		errs = append(errs, rule.Needed(*s.Strategy, spec.Child("strategy"))...)
	}
	if s.PreferredHolder != nil && *s.PreferredHolder != "" && (s.Strategy == nil || *s.Strategy == "") {
		errs = append(errs, field.Forbidden(spec.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}

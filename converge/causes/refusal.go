package causes

import (
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
)

// refusals list why a loop's writes are refused. They are recognised by the texts of the refusals, which are part of the
// API: clients go by them.
func refusals() []converge.Situation {
	return []converge.Situation{
		{Name: "QuotaExceeded", Of: nil, See: general.Refused(general.QuotaExceeded)},
		{Name: "QuotaNeedsLimits", Of: nil, See: general.Refused(quotaNeedsLimits)},
		{Name: "WebhookDown", Of: nil, See: general.Refused(general.WebhookDown)},
		{Name: "WebhookDenies", Of: nil, See: general.Refused(policyDenies(general.WebhookDenies))},
		{Name: "PolicyDenies", Of: nil, See: general.Refused(policyDenies(general.PolicyDenies))},
		{Name: "PodSecurity", Of: nil, See: general.Refused(podSecurity)},
		{Name: "ServiceAccountMissing", Of: nil, See: general.Refused(serviceAccountMissing)},
		{Name: "LimitRange", Of: nil, See: general.Refused(limitRange)},
		{Name: "PriorityClassMissing", Of: nil, See: general.Refused(priorityClassMissing)},
		{Name: "RuntimeClassMissing", Of: nil, See: general.Refused(runtimeClassMissing)},
		{Name: "NamespaceLeaving", Of: nil, See: general.Refused(general.NamespaceLeaving)},
		{Name: "NotAllowed", Of: nil, See: general.Refused(general.NotAllowed)},
		{Name: "Invalid", Of: nil, See: general.Refused(general.Invalid)},
	}
}

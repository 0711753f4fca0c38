package causes

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// refusals list why a loop's writes are refused. They are recognised by the texts of the refusals, which are part of the
// API: clients go by them.
func refusals() []converge.Situation {
	return []converge.Situation{
		{Name: "QuotaExceeded", Of: nil, See: refused(quotaExceeded)},
		{Name: "QuotaNeedsLimits", Of: nil, See: refused(quotaNeedsLimits)},
		{Name: "WebhookDown", Of: nil, See: refused(webhookDown)},
		{Name: "WebhookDenies", Of: nil, See: refused(webhookDenies)},
		{Name: "PolicyDenies", Of: nil, See: refused(policyDenies)},
		{Name: "PodSecurity", Of: nil, See: refused(podSecurity)},
		{Name: "ServiceAccountMissing", Of: nil, See: refused(serviceAccountMissing)},
		{Name: "LimitRange", Of: nil, See: refused(limitRange)},
		{Name: "PriorityClassMissing", Of: nil, See: refused(priorityClassMissing)},
		{Name: "RuntimeClassMissing", Of: nil, See: refused(runtimeClassMissing)},
		{Name: "NamespaceLeaving", Of: nil, See: refused(namespaceLeaving)},
		{Name: "NotAllowed", Of: nil, See: refused(notAllowed)},
		{Name: "Invalid", Of: nil, See: refused(invalid)},
	}
}

// refused limits a rule to objects whose loop failed in its last look, and gives it the error.
func refused(see func(l *converge.Look, text string) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		err := refusal(l)
		if err == nil {
			return nil
		}
		f := see(l, err.Message)
		if f != nil {
			f.Error = err
			if f.State == "" {
				f.State = converge.Blocked
			}
			if f.Next.What == "" {
				f.Next.What = "tries again"
			}
			if r, ok := l.Record(l.Owner, l.Kind, l.Obj); ok && (f.Next.Who == "" || f.Next.Who == l.Owner) {
				f.Next.At = converge.Stamp(r.Next)
			}
		}
		return f
	}
}

// refusal is the last error of the object's loop: of the engine's record, of a condition, or of an event.
func refusal(l *converge.Look) *convergence.Failure {
	if r, ok := l.Record(l.Owner, l.Kind, l.Obj); ok {
		return converge.FailureOf(r)
	}
	return l.Workloads().Failure(l)
}

// eventFailure is an event as an error.
func eventFailure(e *corev1.Event) *convergence.Failure {
	f := &convergence.Failure{Message: e.Message, Count: int64(max(e.Count, 1)), Last: converge.Stamp(converge.Told(e))}
	first := e.FirstTimestamp.Time
	if first.IsZero() {
		first = e.CreationTimestamp.Time
	}
	if e.Series != nil {
		f.Count = int64(e.Series.Count)
	}
	f.First = converge.Stamp(first)
	return f
}

// quoted is the first text in quotes after a mark.
func quoted(s, mark string) string {
	_, rest, ok := strings.Cut(s, mark)
	if !ok {
		return ""
	}
	m := inQuotes.FindStringSubmatch(rest)
	if m == nil {
		return ""
	}
	return m[1]
}

var inQuotes = regexp.MustCompile(`["']([^"']+)["']`)

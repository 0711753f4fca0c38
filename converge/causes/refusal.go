package causes

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
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
	switch obj := l.Obj.(type) {
	case *appsv1.ReplicaSet:
		for _, c := range obj.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return &convergence.Failure{Message: c.Message, First: converge.Stamp(c.LastTransitionTime.Time),
					Last: converge.Stamp(c.LastTransitionTime.Time)}
			}
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		for _, c := range obj.Status.Conditions {
			if c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionFalse && c.Reason == "FailedUpdateScale" {
				return textOnly(c.Message)
			}
		}
	case *appsv1.StatefulSet, *appsv1.DaemonSet, *corev1.ReplicationController, *batchv1.Job, *batchv1.CronJob:
		if e := l.Warning(obj.GetUID(), "FailedCreate"); e != nil {
			return eventFailure(e)
		}
	}
	return nil
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

package converge

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/convergence"
)

// refusals list why a loop's writes are refused. They are recognised by the texts of the refusals, which are part of the
// API: clients go by them.
func refusals() []Situation {
	return []Situation{
		{"QuotaExceeded", nil, refused(quotaExceeded)},
		{"QuotaNeedsLimits", nil, refused(quotaNeedsLimits)},
		{"WebhookDown", nil, refused(webhookDown)},
		{"WebhookDenies", nil, refused(webhookDenies)},
		{"PolicyDenies", nil, refused(policyDenies)},
		{"PodSecurity", nil, refused(podSecurity)},
		{"ServiceAccountMissing", nil, refused(serviceAccountMissing)},
		{"LimitRange", nil, refused(limitRange)},
		{"PriorityClassMissing", nil, refused(priorityClassMissing)},
		{"RuntimeClassMissing", nil, refused(runtimeClassMissing)},
		{"NamespaceLeaving", nil, refused(namespaceLeaving)},
		{"NotAllowed", nil, refused(notAllowed)},
		{"Invalid", nil, refused(invalid)},
	}
}

// refused limits a rule to objects whose loop failed in its last look, and gives it the error.
func refused(see func(l *look, text string) *Finding) func(l *look) *Finding {
	return func(l *look) *Finding {
		err := l.refusal()
		if err == nil {
			return nil
		}
		f := see(l, err.Message)
		if f != nil {
			f.Error = err
			if f.State == "" {
				f.State = Blocked
			}
			if f.Next.What == "" {
				f.Next.What = "tries again"
			}
			if r, ok := l.record(l.owner, l.kind, l.obj); ok && (f.Next.Who == "" || f.Next.Who == l.owner) {
				f.Next.At = stamp(r.Next)
			}
		}
		return f
	}
}

// refusal is the last error of the object's loop: of the engine's record, of a condition, or of an event.
func (l *look) refusal() *convergence.Failure {
	if r, ok := l.record(l.owner, l.kind, l.obj); ok {
		return failureOf(r)
	}
	switch obj := l.obj.(type) {
	case *appsv1.ReplicaSet:
		for _, c := range obj.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return &convergence.Failure{Message: c.Message, First: stamp(c.LastTransitionTime.Time), Last: stamp(c.LastTransitionTime.Time)}
			}
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		for _, c := range obj.Status.Conditions {
			if c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionFalse && c.Reason == "FailedUpdateScale" {
				return textOnly(c.Message)
			}
		}
	case *appsv1.StatefulSet, *appsv1.DaemonSet, *corev1.ReplicationController, *batchv1.Job, *batchv1.CronJob:
		if e := l.warning(obj.GetUID(), "FailedCreate"); e != nil {
			return eventFailure(e)
		}
	}
	return nil
}

// eventFailure is an event as an error.
func eventFailure(e *corev1.Event) *convergence.Failure {
	f := &convergence.Failure{Message: e.Message, Count: int64(max(e.Count, 1)), Last: stamp(told(e))}
	first := e.FirstTimestamp.Time
	if first.IsZero() {
		first = e.CreationTimestamp.Time
	}
	if e.Series != nil {
		f.Count = int64(e.Series.Count)
	}
	f.First = stamp(first)
	return f
}

// between cuts out what stands between two texts; "" when they are not there.
func between(s, from, to string) string {
	_, rest, ok := strings.Cut(s, from)
	if !ok {
		return ""
	}
	out, _, ok := strings.Cut(rest, to)
	if !ok {
		return ""
	}
	return out
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

package converge

import (
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func (l *look) namespaced(k resource.Kind, name string) Ref {
	return Ref{k, l.obj.GetNamespace(), name}
}

// quotaExceeded has the sums of the refusal, not of the quota's status, which may have moved on since.
func quotaExceeded(l *look, text string) *Finding {
	name := between(text, "exceeded quota: ", ",")
	if name == "" {
		return nil
	}
	r := l.namespaced(kinds.ResourceQuotas, name)
	return &Finding{Says: "can't create more: the quota " + name + " is used up (" + quotaSum(text) + ")", Waits: on("Quota", r, "spec.hard"),
		Next:   does(l.owner, "tries again; it succeeds once the quota has room"),
		Advice: []string{"raise the quota: kubectl edit resourcequota " + name + " -n " + r.NS, "or free some of it: scale something else down"}}
}

// quotaSum is the part of the message that has the figures.
func quotaSum(text string) string {
	for i := range text {
		if len(text[i:]) > 10 && text[i:i+10] == "requested:" {
			return text[i:]
		}
	}
	return text
}

// quotaNeedsLimits is a quota of limits or requests in whose namespace a pod without them has no place.
func quotaNeedsLimits(l *look, text string) *Finding {
	name := between(text, "failed quota: ", ":")
	if name == "" {
		return nil
	}
	r := l.namespaced(kinds.ResourceQuotas, name)
	return &Finding{Says: "is refused by the quota " + name + ", which wants every pod to say what it needs", Waits: on("Quota", r, ""),
		Next:   does(person, "sets the requests or limits that the quota counts"),
		Advice: []string{"set them in the pod template, or give the namespace a LimitRange with defaults"}}
}

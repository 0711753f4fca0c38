package causes

import (
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func namespaced(l *converge.Look, k resource.Kind, name string) converge.Ref {
	return converge.Ref{Kind: k, NS: l.Obj.GetNamespace(), Name: name}
}

// quotaExceeded has the sums of the refusal, not of the quota's status, which may have moved on since.
func quotaExceeded(l *converge.Look, text string) *converge.Finding {
	name := words.Between(text, "exceeded quota: ", ",")
	if name == "" {
		return nil
	}
	r := namespaced(l, kinds.ResourceQuotas, name)
	return &converge.Finding{Says: "can't create more: the quota " + name + " is used up (" + quotaSum(text) + ")",
		Waits: converge.On("Quota", r, "spec.hard"),
		Next:  converge.Does(l.Owner, "tries again; it succeeds once the quota has room"),
		Advice: []string{"raise the quota: kubectl edit resourcequota " + name + " -n " + r.NS,
			"or free some of it: scale something else down"}}
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
func quotaNeedsLimits(l *converge.Look, text string) *converge.Finding {
	name := words.Between(text, "failed quota: ", ":")
	if name == "" {
		return nil
	}
	r := namespaced(l, kinds.ResourceQuotas, name)
	return &converge.Finding{Says: "is refused by the quota " + name + ", which wants every pod to say what it needs",
		Waits:  converge.On("Quota", r, ""),
		Next:   converge.Does(converge.Person, "sets the requests or limits that the quota counts"),
		Advice: []string{"set them in the pod template, or give the namespace a LimitRange with defaults"}}
}

package causes

import (
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
)

// quotaNeedsLimits is a quota of limits or requests in whose namespace a pod without them has no place.
func quotaNeedsLimits(l *converge.Look, text string) *converge.Finding {
	name := words.Between(text, "failed quota: ", ":")
	if name == "" {
		return nil
	}
	r := general.Namespaced(l, kinds.ResourceQuotas, name)
	return &converge.Finding{Says: "is refused by the quota " + name + ", which wants every pod to say what it needs",
		Waits:  converge.On("Quota", r, ""),
		Next:   converge.PersonDoes("sets the requests or limits that the quota counts"),
		Advice: []string{"set them in the pod template, or give the namespace a LimitRange with defaults"}}
}

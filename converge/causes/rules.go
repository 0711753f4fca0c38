// Package causes has the situations in which objects get stuck: each is a rule that recognizes one, and says whose move it is.
//
// To add one: a function and its row in the list of its file (a new list: its name in All), and its row in test/why.
package causes

import (
	"slices"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
)

// All are the causes of objects of all kinds, the most telling first, and those of them that explain why a loop fails at an object
// that is as it should be.
func All() (situations, refused []converge.Situation) {
	refused = refusals()
	return slices.Concat(devices(), deletions(), refused, nodes(), scheduling(), images(), kills(), containers(), volumes(), probes(),
		flapping(), resizes(), pods(), budgets(), claims(), rollouts(), jobs(), crons(), latents(), balancers(), services(), ingresses(),
		autoscalers(), certificates(), general.Servers(), general.Leases(), general.Extensions(), names(), general.Operators(),
		general.Anything()), refused
}

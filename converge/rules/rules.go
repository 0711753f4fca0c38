// Package rules puts together what package converge has to know of kinds: health, causes and rests. A program links those that it names.
package rules

import (
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/causes"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/rests"
)

// All are the rules of all kinds of Kubernetes, and of what users define. Those of a control plane without pods are general.Rules.
func All() converge.Rules {
	r := converge.Rules{Healths: health.All(), Custom: health.Custom, Rest: rests.All, Pods: causes.Workloads()}
	r.Situations, r.Refusals = causes.All()
	return r
}

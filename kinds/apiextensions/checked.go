//go:build !reader

package apiextensions

import (
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// checked has definitions checked, and shown as upstream shows them: what a program that only reads (the build tag reader) has no use for.
func checked(d *resource.Def[crd]) *resource.Def[crd] {
	d.Validate, d.ValidateStatus = validateDefinition, validateDefinitionStatus
	d.Gated = resource.Gated[crd]{Columns: columns, Warn: resource.Serving(warnDefinition), Drop: dropObserved}
	return d
}

// dropObserved takes the generations that a status names out of it while that feature is off and the status named none before. Who
// writes a status may say them; upstream's loops and kloop's do not.
func dropObserved(on *features.Set, c, old crd) {
	if on.On("CRDObservedGenerationTracking") || old != nil && namesGeneration(old) {
		return
	}
	c.Status.ObservedGeneration = 0
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].ObservedGeneration = 0
	}
}

func namesGeneration(c crd) bool {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].ObservedGeneration != 0 {
			return true
		}
	}
	return c.Status.ObservedGeneration != 0
}

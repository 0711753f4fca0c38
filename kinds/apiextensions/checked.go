//go:build !reader

package apiextensions

import "github.com/kloop-dev/kloop/resource"

// checked has definitions checked, and shown as upstream shows them: what a program that only reads (the build tag reader) has no use for.
func checked(d *resource.Def[crd]) *resource.Def[crd] {
	d.Validate, d.ValidateStatus = validateDefinition, validateDefinitionStatus
	d.Gated = resource.Gated[crd]{Columns: columns, Warn: warnDefinition}
	return d
}

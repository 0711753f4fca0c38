package core

import (
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validIP checks an address as fields do that are older than strict parsing.
func validIP(s string, path *field.Path) field.ErrorList {
	return utilvalidation.IsValidIPForLegacyField(path, s, true, nil)
}

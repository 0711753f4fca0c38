package resource

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const owners, books = "metadata.ownerReferences[", "metadata.managedFields["

// MetaBefore37 turns an error about the metadata of an object, or of an object in it, into that of versions up to 1.36: there
// the place of an owner in its list is left out, and what is missing or not among the words counts as invalid.
func MetaBefore37(e *field.Error) {
	if above, rest, ok := strings.Cut(e.Field, owners); ok {
		_, rest, _ = strings.Cut(rest, "]")
		e.Field = above + strings.TrimSuffix(owners, "[") + rest
		if e.Type == field.ErrorTypeRequired {
			e.Type, e.BadValue = field.ErrorTypeInvalid, ""
		}
		if rest == ".apiVersion" {
			e.Detail = "version must not be empty"
		}
		return
	}
	if strings.Contains(e.Field, books) && strings.HasSuffix(e.Field, "].operation") {
		if e.Type == field.ErrorTypeRequired {
			e.BadValue = ""
		}
		e.Type, e.Detail = field.ErrorTypeInvalid, "must be `Apply` or `Update`"
	}
}

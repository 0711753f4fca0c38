package admissionregistration

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// staticSuffix ends the names of what only manifests of the API server may declare.
const staticSuffix = ".static.k8s.io"

const reservedText = `names ending with "` + staticSuffix +
	`" are reserved for static manifest-based configurations and cannot be managed via the API`

// reserving adds to check that no new object may have such a name. Before there were such manifests it was only warned of,
// as still when the object changes.
func reserving[T resource.Object](check func(obj, old T) field.ErrorList) resource.Gated[T] {
	return resource.Gated[T]{
		Validate: func(on *features.Set, obj, old T) field.ErrorList {
			errs := check(obj, old)
			if refused(on, obj, old) {
				errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), reservedText))
			}
			return errs
		},
		Warn: func(on *features.Set, obj, old T) []string {
			if strings.HasSuffix(obj.GetName(), staticSuffix) && !refused(on, obj, old) {
				return []string{"metadata.name: " + reservedText}
			}
			return nil
		},
	}
}

func refused[T resource.Object](on *features.Set, obj, old T) bool {
	var none T
	return resource.Object(old) == resource.Object(none) && strings.HasSuffix(obj.GetName(), staticSuffix) &&
		on.On("ManifestBasedAdmissionControlConfig")
}

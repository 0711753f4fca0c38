package apply

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// Strangers says that an owner of fields of old wrote in the core group while this is a write in another one, or the other way
// round. Upstream keeps the books of the core group apart from those of all others: a write in one forgets the owners of the
// other. Events alone are served in both.
func Strangers(k resource.Kind, gvk schema.GroupVersionKind, old resource.Object) bool {
	return old != nil && len(k.Info().Also) > 0 && slices.ContainsFunc(old.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return strings.Contains(e.APIVersion, "/") != (gvk.Group != "")
	})
}

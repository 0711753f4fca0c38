package resource

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/intern"
)

// owned are sets of field owners, of all kinds: those of objects that one client makes in one way are the same.
var owned intern.Pool

// shareOwners has an object that is kept share its sets of owned fields with others. The list may be that of its last version, which
// others read, so it is copied where it changes.
func shareOwners(obj Object) {
	list := obj.GetManagedFields()
	own := false
	for i := range list {
		fields := list[i].FieldsV1
		if fields == nil {
			continue
		}
		known := owned.Bytes('f', fields.Raw, func() any { return fields }).(*metav1.FieldsV1)
		if known == fields {
			continue
		}
		if !own {
			list, own = slices.Clone(list), true
		}
		list[i].FieldsV1 = known
	}
	if own {
		obj.SetManagedFields(list)
	}
}

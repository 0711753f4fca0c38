// Package apply changes objects by patches and keeps track of who owns which field.
package apply

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// A Write says who writes how, for the bookkeeping of field ownership.
type Write struct {
	Kind    resource.Kind
	GVK     schema.GroupVersionKind // version that the caller speaks; objects passed along are of this version
	Manager string
	Sub     string // subresource
	Now     time.Time
}

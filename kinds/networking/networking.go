// Package networking declares the kinds of the group networking.k8s.io: who may talk to whom, how requests
// come in from outside, and which addresses services may have.
package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

func gvk(kind string) schema.GroupVersionKind { return networkingv1.SchemeGroupVersion.WithKind(kind) }

// segment checks a name that is required and must fit into a URL.
func segment(v string, path *field.Path) field.ErrorList {
	return rule.NeededFormat(v, path, func(s string) []string { return rule.PathSegment(s, false) })
}

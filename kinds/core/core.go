// Package core declares the kinds of the core group ("" version v1): what they are called, how they are
// stored, defaulted, validated and shown.
package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// All lists the kinds of the group that need no nodes: package pods has the others.
func All() []resource.Kind {
	return []resource.Kind{Bindings, ComponentStatuses, ConfigMaps, Endpoints, Events, LimitRanges, Namespaces, ResourceQuotas, Secrets,
		ServiceAccounts, Services}
}

var (
	doAll     = []string{"create", "delete", "get", "patch", "update"}
	doCreate  = []string{"create"}
	doStream  = []string{"create", "get"}
	doGet     = []string{"get"}
	doGetList = []string{"get", "list"}
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

func gvk(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }

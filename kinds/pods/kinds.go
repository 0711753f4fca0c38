// Package pods completes the kinds of the core group that only a cluster with nodes has: pods, what makes them, nodes and volumes. Who
// imports it gets those of package core with their defaults, rules and columns.
package pods

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// All lists them.
func All() []resource.Kind {
	return []resource.Kind{Nodes, PersistentVolumeClaims, PersistentVolumes, PodTemplates, Pods, ReplicationControllers}
}

var (
	specPath        = field.NewPath("spec")
	statusPath      = field.NewPath("status")
	annotationsPath = field.NewPath("metadata", "annotations")
)

const unknown = "<unknown>"

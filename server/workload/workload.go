// Package workload has what pods need of the front door: binding to a node, and eviction, which PodDisruptionBudgets may forbid.
package workload

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/devices"
)

// All are the extensions of whatever needs nodes: of pods, and of the devices that they claim.
func All(s *server.Server) []server.Extension {
	return append(Extensions(s), devices.Extensions(s.Core)...)
}

// Eviction is an empty body of that subresource.
func Eviction() resource.Object { return &policyv1.Eviction{} }

// Extensions are for pods, and for the virtual kind Binding.
func Extensions(s *server.Server) []server.Extension {
	x := extension{s}
	return []server.Extension{
		{Resource: corev1.Resource("pods"), Graceful: true, Open: opened,
			Calls: map[string]server.Call{"binding": x.bind, "eviction": x.evict}},
		{Resource: corev1.Resource("bindings"), Calls: map[string]server.Call{"": x.bind}},
	}
}

type extension struct{ *server.Server }

// opened warns of what becomes of a new pod's annotations before anything is done about it.
func opened(r *server.Request, obj resource.Object) error {
	if p, ok := obj.(*corev1.Pod); ok && r.Warn != nil {
		for _, text := range podspec.ConfinementWarnings(p.Annotations, &p.Spec) {
			r.Warn(text)
		}
	}
	return nil
}

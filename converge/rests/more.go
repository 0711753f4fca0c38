package rests

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// restOfAccount tells of secrets for the pull of images that are not there: its pods are made all the same, and pull without.
func restOfAccount(w *converge.World, a *corev1.ServiceAccount) (says, advice string) {
	for _, s := range a.ImagePullSecrets {
		if s.Name != "" && w.Sees(kinds.Secrets, a.Namespace) && resource.Get(w.Read, kinds.Secrets, a.Namespace, s.Name) == nil {
			return "names secret/" + s.Name + " in imagePullSecrets, which does not exist: its pods pull images without",
				"kubectl get secrets -n " + a.Namespace
		}
	}
	return "", ""
}

// restOfSlice tells of a slice that somebody made for a service which does not exist.
func restOfSlice(w *converge.World, s *discoveryv1.EndpointSlice) (says, advice string) {
	name := s.Labels[discoveryv1.LabelServiceName]
	switch {
	case name == "":
		return "belongs to no service: it has no label " + discoveryv1.LabelServiceName, ""
	case !w.Sees(kinds.Services, s.Namespace) || resource.Get(w.Read, kinds.Services, s.Namespace, name) != nil:
		return "", ""
	}
	advice = "those that exist: kubectl get services -n " + s.Namespace
	return "is for service/" + name + ", which does not exist", advice
}

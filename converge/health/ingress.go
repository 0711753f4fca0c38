package health

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// OldClass is the annotation by which ingresses named their class before there was a field.
const OldClass = "kubernetes.io/ingress.class"

// Unserved completes a sentence about an ingress that no controller takes up.
const Unserved = "is served by nobody"

// ingressHealth finds no gap in an ingress that somebody could serve: controllers need not tell that they do.
func ingressHealth(w *converge.World, i *networkingv1.Ingress) converge.Health {
	if len(i.Status.LoadBalancer.Ingress) > 0 {
		return partsHealth(w, i)
	}
	h := converge.Health{Says: Unserved, Want: "spec.ingressClassName", Have: "status.loadBalancer.ingress empty",
		Since: i.CreationTimestamp.Time}
	if w.Unwatched(kinds.Ingresses.Info().GR()) {
		return h
	}
	name := ptr.Deref(i.Spec.IngressClassName, "")
	if name != "" && w.Sees(kinds.IngressClasses, "") && resource.Get(w.Read, kinds.IngressClasses, "",
		name) == nil || w.Callers != nil && name == "" && i.Annotations[OldClass] == "" {
		return h
	}
	if h := partsHealth(w, i); !h.Converged() {
		return h
	}
	if general.NewestWarning((&converge.Look{World: w, Obj: i})) != nil {
		h.Says = "has no address, and its controller warns"
		return h
	}
	return converge.Health{}
}

// partsHealth finds a gap in an ingress that names what does not exist.
func partsHealth(w *converge.World, i *networkingv1.Ingress) converge.Health {
	if b, why := LostBackend(w, i); b != nil && w.Sees(kinds.Services, i.Namespace) {
		return converge.Health{Says: "leads to a backend that is not there", Want: "service " + b.Name + " with its port", Have: why,
			Since: converge.Changed(i)}
	}
	if name := LostSecret(w, i); name != "" && w.Sees(kinds.Secrets, i.Namespace) {
		return converge.Health{Says: "has no certificate for some of its hosts", Want: "spec.tls[].secretName=" + name,
			Have:  "no such secret",
			Since: converge.Changed(i)}
	}
	if down := DownBackends(w, i); len(down) > 0 {
		return converge.Health{Says: "leads to a backend that takes no connections", Want: "endpoints of service " + down[0].Name,
			Have: "no ready endpoint", Since: general.ServiceHealth(w, down[0]).Since}
	}
	return converge.Health{}
}

// backends are the services that an ingress leads to.
func backends(i *networkingv1.Ingress) (list []*networkingv1.IngressServiceBackend) {
	add := func(b *networkingv1.IngressBackend) {
		if b != nil && b.Service != nil {
			list = append(list, b.Service)
		}
	}
	add(i.Spec.DefaultBackend)
	for r := range i.Spec.Rules {
		if h := i.Spec.Rules[r].HTTP; h != nil {
			for p := range h.Paths {
				add(&h.Paths[p].Backend)
			}
		}
	}
	return list
}

// LostBackend is the first service that an ingress leads to and that does not exist, or lacks the port.
func LostBackend(w *converge.World, i *networkingv1.Ingress) (b *networkingv1.IngressServiceBackend, why string) {
	for _, b := range backends(i) {
		s := resource.Get(w.Read, kinds.Services, i.Namespace, b.Name)
		if s == nil {
			return b, "no such service"
		}
		if s.Spec.Type == corev1.ServiceTypeExternalName && len(s.Spec.Ports) == 0 {
			continue // a controller goes to the port that is named
		}
		if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
			return b.Port.Name != "" && p.Name == b.Port.Name || b.Port.Name == "" && p.Port == b.Port.Number
		}) {
			return b, "no such port"
		}
	}
	return nil, ""
}

// DownBackends are the services that an ingress leads to and that have no ready endpoint.
func DownBackends(w *converge.World, i *networkingv1.Ingress) (down []*corev1.Service) {
	for _, s := range Backends(w, i) {
		if !general.ServiceHealth(w, s).Converged() && !slices.Contains(down, s) {
			down = append(down, s)
		}
	}
	return down
}

// Backends are the services that an ingress leads to.
func Backends(w *converge.World, i *networkingv1.Ingress) (list []*corev1.Service) {
	for _, b := range backends(i) {
		if s := resource.Get(w.Read, kinds.Services, i.Namespace, b.Name); s != nil {
			list = append(list, s)
		}
	}
	return list
}

// LostSecret is the first secret with a certificate that does not exist.
func LostSecret(w *converge.World, i *networkingv1.Ingress) string {
	for _, t := range i.Spec.TLS {
		if t.SecretName != "" && resource.Get(w.Read, kinds.Secrets, i.Namespace, t.SecretName) == nil {
			return t.SecretName
		}
	}
	return ""
}

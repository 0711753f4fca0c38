package converge

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// ingresses are the ways in which an ingress leads nowhere.
func ingresses() []Situation {
	of := []resource.Kind{kinds.Ingresses}
	return []Situation{
		{"IngressClassMissing", of, ingressClassMissing},
		{"IngressControllerMissing", of, ingressControllerMissing},
		{"IngressBackendMissing", of, ingressBackendMissing},
		{"IngressSecretMissing", of, ingressSecretMissing},
		{"IngressBackendDown", of, ingressBackendDown},
	}
}

// oldClass is the annotation by which ingresses named their class before there was a field.
const oldClass = "kubernetes.io/ingress.class"

// ingressHealth finds no gap in an ingress that somebody could serve: controllers need not tell that they do.
func ingressHealth(w *World, i *networkingv1.Ingress) Health {
	if len(i.Status.LoadBalancer.Ingress) > 0 {
		return partsHealth(w, i)
	}
	h := Health{Says: "is served by nobody", Want: "spec.ingressClassName", Have: "status.loadBalancer.ingress empty",
		Since: i.CreationTimestamp.Time}
	if w.unwatched(kinds.Ingresses.Info().GR()) {
		return h
	}
	name := ptr.Deref(i.Spec.IngressClassName, "")
	if name != "" && w.Sees(kinds.IngressClasses, "") && resource.Get(w.Read, kinds.IngressClasses, "",
		name) == nil || w.Callers != nil && name == "" && i.Annotations[oldClass] == "" {
		return h
	}
	if h := partsHealth(w, i); !h.Converged() {
		return h
	}
	if (&look{World: w, obj: i}).newestWarning() != nil {
		h.Says = "has no address, and its controller warns"
		return h
	}
	return Health{}
}

// partsHealth finds a gap in an ingress that names what does not exist.
func partsHealth(w *World, i *networkingv1.Ingress) Health {
	if b, why := lostBackend(w, i); b != nil && w.Sees(kinds.Services, i.Namespace) {
		return Health{Says: "leads to a backend that is not there", Want: "service " + b.Name + " with its port", Have: why, Since: changed(i)}
	}
	if name := lostSecret(w, i); name != "" && w.Sees(kinds.Secrets, i.Namespace) {
		return Health{Says: "has no certificate for some of its hosts", Want: "spec.tls[].secretName=" + name, Have: "no such secret",
			Since: changed(i)}
	}
	if down := downBackends(w, i); len(down) > 0 {
		return Health{Says: "leads to a backend that takes no connections", Want: "endpoints of service " + down[0].Name,
			Have: "no ready endpoint", Since: serviceHealth(w, down[0]).Since}
	}
	return Health{}
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

// lostBackend is the first service that an ingress leads to and that does not exist, or lacks the port.
func lostBackend(w *World, i *networkingv1.Ingress) (b *networkingv1.IngressServiceBackend, why string) {
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

// downBackends are the services that an ingress leads to and that have no ready endpoint.
func downBackends(w *World, i *networkingv1.Ingress) (down []*corev1.Service) {
	for _, b := range backends(i) {
		if s := resource.Get(w.Read, kinds.Services, i.Namespace, b.Name); s != nil && !serviceHealth(w, s).Converged() && !slices.Contains(down,
			s) {
			down = append(down, s)
		}
	}
	return down
}

// ingressBackendDown has the services without endpoints below it: the ingress itself is as it should be.
func ingressBackendDown(l *look) *Finding {
	down := downBackends(l.World, l.obj.(*networkingv1.Ingress))
	if len(down) == 0 {
		return nil
	}
	return &Finding{Says: "leads to service/" + down[0].Name + ", which has no endpoint that takes connections",
		Owner: "the ingress controller", State: Waiting,
		Waits: on("Object", refTo(kinds.Services, down[0]), ""), Next: does("the ingress controller", "sends requests there when it has"),
		Below: refs(kinds.Services, down)}
}

// lostSecret is the first secret with a certificate that does not exist.
func lostSecret(w *World, i *networkingv1.Ingress) string {
	for _, t := range i.Spec.TLS {
		if t.SecretName != "" && resource.Get(w.Read, kinds.Secrets, i.Namespace, t.SecretName) == nil {
			return t.SecretName
		}
	}
	return ""
}

// ingressBackendMissing is a service or a port of it that is not there. Nothing validates either: they may come later.
func ingressBackendMissing(l *look) *Finding {
	i := l.obj.(*networkingv1.Ingress)
	b, why := lostBackend(l.World, i)
	if b == nil || !l.Sees(kinds.Services, i.Namespace) {
		return nil
	}
	r := l.namespaced(kinds.Services, b.Name)
	if why == "no such service" {
		return &Finding{Says: "leads to service/" + b.Name + ", which does not exist", Owner: person, State: Blocked, Waits: on("Object", r, ""),
			Next:   does(person, "creates service/%s, or names another one", b.Name),
			Advice: []string{"those that exist: kubectl get services -n " + i.Namespace}}
	}
	port := cmp.Or(b.Port.Name, fmt.Sprint(b.Port.Number))
	return &Finding{Says: "leads to port " + port + " of service/" + b.Name + ", which has no such port", Owner: person, State: Blocked,
		Waits:  on("Field", r, "spec.ports"),
		Next:   does(person, "corrects the port here or there"),
		Advice: []string{"an ingress names the service's port, not that of its pods: kubectl get service " + b.Name + " -n " + i.Namespace}}
}

// ingressSecretMissing is no error to most controllers: they serve a certificate of their own, which browsers refuse.
func ingressSecretMissing(l *look) *Finding {
	i := l.obj.(*networkingv1.Ingress)
	name := lostSecret(l.World, i)
	if name == "" || !l.Sees(kinds.Secrets, i.Namespace) {
		return nil
	}
	return &Finding{Says: "names the secret " + name + " for its certificate, which does not exist", Owner: person, State: Blocked,
		Waits: on("Object", l.namespaced(kinds.Secrets, name), ""),
		Next:  does(person, "creates secret/%s, or has it made", name),
		Advice: []string{"kubectl create secret tls " + name + " -n " + i.Namespace + " --cert=CERT --key=KEY",
			"if cert-manager is to make it, look at its certificate: kubectl get certificate -n " + i.Namespace}}
}

// ingressClassMissing tells apart an ingress that names no class from one whose class is not there. The default class is filled in when
// an ingress is made and never later, so that one made too early stays without.
func ingressClassMissing(l *look) *Finding {
	i := l.obj.(*networkingv1.Ingress)
	name := ptr.Deref(i.Spec.IngressClassName, "")
	switch {
	case name == "" && i.Annotations[oldClass] == "":
		return &Finding{Says: "names no ingress class, and there was no default one when it was made", Owner: person, State: Blocked,
			Waits: on("Field", refTo(l.kind, i), "spec.ingressClassName"),
			Next:  does(person, "names a class"),
			Advice: []string{"set spec.ingressClassName to a class that exists: kubectl get ingressclass",
				"if there is none, install an ingress controller"}}
	case name != "" && l.Sees(kinds.IngressClasses, "") && resource.Get(l.Read, kinds.IngressClasses, "", name) == nil:
		r := Ref{kinds.IngressClasses, "", name}
		return &Finding{Says: "names the ingress class " + name + ", which does not exist", Owner: person, State: Blocked,
			Waits:  on("Object", r, ""),
			Next:   does(person, "creates ingressclass/%s, or names another one", name),
			Advice: []string{"those that exist: kubectl get ingressclass", "install the controller that brings the class " + name}}
	}
	return nil
}

// ingressControllerMissing goes by watches: no client has asked for changes of ingresses, so that whoever the class names does not run.
func ingressControllerMissing(l *look) *Finding {
	i := l.obj.(*networkingv1.Ingress)
	who := "the ingress controller"
	if c := resource.Get(l.Read, kinds.IngressClasses, "", ptr.Deref(i.Spec.IngressClassName, i.Annotations[oldClass])); c != nil {
		who = "the ingress controller " + c.Spec.Controller
	}
	if !l.unwatched(l.kind.Info().GR()) {
		return nil
	}
	return &Finding{Says: "waits for " + who + ", which is not connected to this cluster", Owner: who, State: Missing,
		Waits:  forName("Controller", who),
		Next:   does(who, "takes it up when it runs"),
		Advice: []string{"install or start the ingress controller", "or look why it does not reach the API server: kubectl get pods -A"}}
}

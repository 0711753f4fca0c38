package converge

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// ingresses are the ways in which an ingress leads nowhere.
func ingresses() []Situation {
	of := []resource.Kind{kinds.Ingresses}
	return []Situation{
		{"IngressClassMissing", of, ingressClassMissing},
		{"IngressControllerMissing", of, ingressControllerMissing},
	}
}

// oldClass is the annotation by which ingresses named their class before there was a field.
const oldClass = "kubernetes.io/ingress.class"

// ingressHealth finds no gap in an ingress that somebody could serve: controllers need not tell that they do.
func ingressHealth(w *World, i *networkingv1.Ingress) Health {
	if w.Callers == nil || len(i.Status.LoadBalancer.Ingress) > 0 {
		return Health{}
	}
	h := Health{Says: "is served by nobody", Want: "spec.ingressClassName", Have: "status.loadBalancer.ingress empty", Since: i.CreationTimestamp.Time}
	if w.Callers.watchers(kinds.Ingresses.Info().GR()) == 0 {
		return h
	}
	if name := deref(i.Spec.IngressClassName, ""); name != "" && resource.Get(w.Read, kinds.IngressClasses, "", name) == nil || name == "" && i.Annotations[oldClass] == "" {
		return h
	}
	return Health{}
}

func ingressClassMissing(l *look) *Finding {
	i := l.obj.(*networkingv1.Ingress)
	name := deref(i.Spec.IngressClassName, "")
	switch {
	case name == "" && i.Annotations[oldClass] == "":
		return &Finding{Says: "names no ingress class, and there was no default one when it was made", Owner: person, State: Blocked, Waits: on("Field", refTo(l.kind, i), "spec.ingressClassName"),
			Next: does(person, "names a class"), Advice: []string{"set spec.ingressClassName: kubectl get ingressclass lists the classes", "if there is none, install an ingress controller"}}
	case name != "" && resource.Get(l.Read, kinds.IngressClasses, "", name) == nil:
		r := Ref{kinds.IngressClasses, "", name}
		return &Finding{Says: "names the ingress class " + name + ", which does not exist", Owner: person, State: Blocked, Waits: on("Object", r, ""),
			Next: does(person, "creates ingressclass/%s, or names another one", name), Advice: []string{"kubectl get ingressclass lists those that exist", "install the controller that brings the class " + name}}
	}
	return nil
}

func ingressControllerMissing(l *look) *Finding {
	i := l.obj.(*networkingv1.Ingress)
	who := "the ingress controller"
	if c := resource.Get(l.Read, kinds.IngressClasses, "", deref(i.Spec.IngressClassName, i.Annotations[oldClass])); c != nil {
		who = "the ingress controller " + c.Spec.Controller
	}
	if l.Callers.watchers(l.kind.Info().GR()) > 0 {
		return nil
	}
	return &Finding{Says: "waits for " + who + ", which is not connected to this cluster", Owner: who, State: Missing, Waits: forName("Controller", who),
		Next: does(who, "takes it up when it runs"), Advice: []string{"install or start the ingress controller", "or look why it does not reach the API server: kubectl get pods -A"}}
}

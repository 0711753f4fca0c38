package rests

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// restOfIngress tells of an ingress without an address what is known: not all controllers write one.
func restOfIngress(w *converge.World, i *networkingv1.Ingress) (string, string) {
	for _, svc := range health.Backends(w, i) {
		if says, advice := general.Asleep(w, svc); says != "" {
			return says, advice
		}
	}
	if len(i.Status.LoadBalancer.Ingress) > 0 {
		return "", ""
	}
	if says, advice := classless(w, i); says != "" {
		return says, advice
	}
	who := "its controller"
	if c := resource.Get(w.Read, kinds.IngressClasses, "", ptr.Deref(i.Spec.IngressClassName, i.Annotations[health.OldClass])); c != nil {
		who = "the controller " + c.Spec.Controller
	}
	says := "has no address in its status, where " + who + " writes it, though not all controllers do"
	if w.Callers == nil {
		says += "; whether it runs is not known here"
	}
	if own, other := ptr.Deref(i.Spec.IngressClassName, i.Annotations[health.OldClass]), servedClass(w, i); other != "" {
		return says + "; no ingress of class " + own + " has one, and those of class " + other + " do",
			"if that class is meant: kubectl patch ingress " + i.Name + " -n " + i.Namespace + ` -p '{"spec":{"ingressClassName":"` + other + `"}}'`
	}
	return says, "kubectl get pods -A"
}

// classless tells of an ingress that names no class where none is the default: most controllers pass over it.
func classless(w *converge.World, i *networkingv1.Ingress) (says, advice string) {
	if i.Spec.IngressClassName != nil || i.Annotations[health.OldClass] != "" || !w.Sees(kinds.IngressClasses, "") {
		return "", ""
	}
	classes := resource.List(w.Read, kinds.IngressClasses, "")
	for _, c := range classes {
		if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return "", ""
		}
	}
	if len(classes) == 0 {
		return "", ""
	}
	says = "names no ingress class, and none is the default: a controller that goes by classes passes over it"
	advice = "kubectl get ingressclasses"
	if len(classes) == 1 {
		advice = "if " + classes[0].Name + " is to serve it: kubectl patch ingress " + i.Name + " -n " + i.Namespace +
			` -p '{"spec":{"ingressClassName":"` + classes[0].Name + `"}}'`
	}
	return says, advice
}

// servedClass is the one class whose ingresses have addresses, where those of an ingress's own class have none; "": there are none such.
func servedClass(w *converge.World, i *networkingv1.Ingress) (other string) {
	own := ptr.Deref(i.Spec.IngressClassName, "")
	if own == "" || !w.Sees(kinds.Ingresses, "") {
		return ""
	}
	for _, one := range resource.List(w.Read, kinds.Ingresses, "") {
		class := ptr.Deref(one.Spec.IngressClassName, "")
		switch {
		case len(one.Status.LoadBalancer.Ingress) == 0 || class == "":
		case class == own || other != "" && class != other:
			return ""
		default:
			other = class
		}
	}
	return other
}

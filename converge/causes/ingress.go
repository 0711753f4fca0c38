package causes

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// ingresses are the ways in which an ingress leads nowhere.
func ingresses() []converge.Situation {
	of := []resource.Kind{kinds.Ingresses}
	return []converge.Situation{
		{Name: "IngressClassMissing", Of: of, See: ingressClassMissing},
		{Name: "IngressControllerMissing", Of: of, See: ingressControllerMissing},
		{Name: "IngressBackendMissing", Of: of, See: ingressBackendMissing},
		{Name: "IngressSecretMissing", Of: of, See: ingressSecretMissing},
		{Name: "IngressBackendDown", Of: of, See: ingressBackendDown},
	}
}

// ingressBackendDown has the services without endpoints below it: the ingress itself is as it should be.
func ingressBackendDown(l *converge.Look) *converge.Finding {
	down := health.DownBackends(l.World, l.Obj.(*networkingv1.Ingress))
	if len(down) == 0 {
		return nil
	}
	return &converge.Finding{Says: "leads to service/" + down[0].Name + ", which has no endpoint that takes connections",
		Owner: "the ingress controller", State: converge.Waiting,
		Waits: converge.On("Object", converge.RefTo(kinds.Services, down[0]), ""), Next: converge.Does("the ingress controller",
			"sends requests there when it has"),
		Below: converge.Refs(kinds.Services, down)}
}

// ingressBackendMissing is a service or a port of it that is not there. Nothing validates either: they may come later.
func ingressBackendMissing(l *converge.Look) *converge.Finding {
	i := l.Obj.(*networkingv1.Ingress)
	b, why := health.LostBackend(l.World, i)
	if b == nil || !l.Sees(kinds.Services, i.Namespace) {
		return nil
	}
	r := general.Namespaced(l, kinds.Services, b.Name)
	if why == "no such service" {
		f := &converge.Finding{Says: "leads to service/" + b.Name + ", which does not exist", Owner: converge.Person,
			State: converge.Blocked, Waits: converge.On("Object", r, ""),
			Next:   converge.PersonDoes("creates service/%s, or names another one", b.Name),
			Advice: []string{"those that exist: kubectl get services -n " + i.Namespace}}
		alsoMissing(l, f)
		return f
	}
	port := cmp.Or(b.Port.Name, fmt.Sprint(b.Port.Number))
	f := &converge.Finding{Says: "leads to port " + port + " of service/" + b.Name + ", which has no such port", Owner: converge.Person,
		State:  converge.Blocked,
		Waits:  converge.On("Field", r, "spec.ports"),
		Next:   converge.PersonDoes("corrects the port here or there"),
		Advice: []string{"an ingress names the service's port, not that of its pods: kubectl get service " + b.Name + " -n " + i.Namespace}}
	otherPort(l, f, i, b)
	alsoMissing(l, f)
	return f
}

// alsoMissing adds that the class or the certificate of an ingress is missing to what else is wrong with it.
func alsoMissing(l *converge.Look, f *converge.Finding) {
	for _, other := range []*converge.Finding{classless(l), ingressSecretMissing(l)} {
		if other != nil {
			f.Says += "; it also " + other.Says
			f.Also = append(f.Also, other.Advice[0])
		}
	}
}

// otherPort tells which ports the service of a backend has. If it is one alone, that is meant.
func otherPort(l *converge.Look, f *converge.Finding, i *networkingv1.Ingress, b *networkingv1.IngressServiceBackend) {
	s := resource.Get(l.Read, kinds.Services, i.Namespace, b.Name)
	if s == nil || len(s.Spec.Ports) == 0 {
		return
	}
	var has []string
	for _, p := range s.Spec.Ports {
		has = append(has, strings.TrimPrefix(p.Name+"=", "=")+strconv.Itoa(int(p.Port)))
	}
	if f.Says += ": it has " + words.List(has, 4); len(has) > 1 || metav1.GetControllerOfNoCopy(i) != nil {
		return
	}
	for r := range i.Spec.Rules {
		if i.Spec.Rules[r].HTTP == nil {
			continue
		}
		for p := range i.Spec.Rules[r].HTTP.Paths {
			if own := i.Spec.Rules[r].HTTP.Paths[p].Backend.Service; own != nil && *own == *b {
				f.Advice = append([]string{fmt.Sprintf("if that is meant: kubectl patch ingress %s -n %s --type=json -p "+
					`'[{"op":"replace","path":"/spec/rules/%d/http/paths/%d/backend/service/port","value":{"number":%d}}]'`, i.Name, i.Namespace, r,
					p, s.Spec.Ports[0].Port)}, f.Advice...)
				return
			}
		}
	}
}

// ingressSecretMissing is no error to most controllers: they serve a certificate of their own, which browsers refuse.
func ingressSecretMissing(l *converge.Look) *converge.Finding {
	i := l.Obj.(*networkingv1.Ingress)
	name := health.LostSecret(l.World, i)
	if name == "" || !l.Sees(kinds.Secrets, i.Namespace) {
		return nil
	}
	return &converge.Finding{Says: "names the secret " + name + " for its certificate, which does not exist", Owner: converge.Person,
		State: converge.Blocked,
		Waits: converge.On("Object", general.Namespaced(l, kinds.Secrets, name), ""),
		Next:  converge.PersonDoes("creates secret/%s, or has it made", name),
		Advice: []string{"kubectl create secret tls " + name + " -n " + i.Namespace + " --cert=CERT --key=KEY",
			"if cert-manager is to make it, look at its certificate: kubectl get certificate -n " + i.Namespace}}
}

// classless finds an ingress that names no class. The default class is filled in when an ingress is made and never later, so that one made
// too early stays without.
func classless(l *converge.Look) *converge.Finding {
	i := l.Obj.(*networkingv1.Ingress)
	if ptr.Deref(i.Spec.IngressClassName, "") != "" || i.Annotations[health.OldClass] != "" || len(i.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	return &converge.Finding{Says: "names no ingress class, and there was no default one when it was made", Owner: converge.Person,
		State: converge.Blocked,
		Waits: l.Field("spec.ingressClassName"),
		Next:  converge.PersonDoes("names a class"),
		Advice: []string{"set spec.ingressClassName to a class that exists: kubectl get ingressclass",
			"if there is none, install an ingress controller"}}
}

// ingressClassMissing tells apart an ingress that names no class from one whose class is not there. Of one whose backends are missing,
// that comes first: some controllers serve ingresses without a class.
func ingressClassMissing(l *converge.Look) *converge.Finding {
	if f := classless(l); f != nil && l.Judged.Says == health.Unserved {
		return f
	}
	i := l.Obj.(*networkingv1.Ingress)
	name := ptr.Deref(i.Spec.IngressClassName, "")
	if name == "" || !l.Sees(kinds.IngressClasses, "") || resource.Get(l.Read, kinds.IngressClasses, "", name) != nil {
		return nil
	}
	return &converge.Finding{Says: "names the ingress class " + name + ", which does not exist", Owner: converge.Person,
		State:  converge.Blocked,
		Waits:  converge.On("Object", converge.Ref{Kind: kinds.IngressClasses, NS: "", Name: name}, ""),
		Next:   converge.PersonDoes("creates ingressclass/%s, or names another one", name),
		Advice: []string{"those that exist: kubectl get ingressclass", "install the controller that brings the class " + name}}
}

// ingressControllerMissing goes by watches: no client has asked for changes of ingresses, so that whoever the class names does not run.
func ingressControllerMissing(l *converge.Look) *converge.Finding {
	i := l.Obj.(*networkingv1.Ingress)
	who := "the ingress controller"
	if c := resource.Get(l.Read, kinds.IngressClasses, "", ptr.Deref(i.Spec.IngressClassName, i.Annotations[health.OldClass])); c != nil {
		who = "the ingress controller " + c.Spec.Controller
	}
	if !l.Unwatched(l.Kind.Info().GR()) {
		return nil
	}
	return &converge.Finding{Says: "waits for " + who + ", which is not connected to this cluster", Owner: who, State: converge.Missing,
		Waits:  converge.ForName("Controller", who),
		Next:   converge.Does(who, "takes it up when it runs"),
		Advice: []string{"install or start the ingress controller", "or look why it does not reach the API server: kubectl get pods -A"}}
}

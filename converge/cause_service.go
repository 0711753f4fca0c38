package converge

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// services are the ways in which a service leads nowhere.
func services() []Situation {
	service := func(see func(l *look, s *corev1.Service) *Finding) func(l *look) *Finding {
		return func(l *look) *Finding { return see(l, l.obj.(*corev1.Service)) }
	}
	of := []resource.Kind{kinds.Services}
	return []Situation{
		{"AliasLeadsNowhere", of, service(aliasLeadsNowhere)},
		{"LoadBalancerMissing", of, service(loadBalancerMissing)},
		{"NoEndpoints", of, service(noEndpoints)},
		{"NothingSelected", of, service(nothingSelected)},
		{"BackendsNotReady", of, service(backendsNotReady)},
		{"PortMissing", of, service(portMissing)},
	}
}

func loadBalancerMissing(l *look, s *corev1.Service) *Finding {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	who := cmp.Or(ptr.Deref(s.Spec.LoadBalancerClass, ""), "the load balancer controller")
	why, e := "", l.newestWarning()
	if e != nil {
		why = e.Message
	}
	for _, c := range s.Status.Conditions {
		if c.Status == "False" && l.owner != "load-balancer" {
			why = cmp.Or(c.Message, why)
		}
	}
	if why != "" {
		return &Finding{Says: "gets no address: " + oneLine(why), Owner: who, State: BackingOff, Error: textOnly(why),
			Waits:  on("Field", refTo(l.kind, s), "status.loadBalancer.ingress"),
			Next:   does(who, "tries again"),
			Advice: []string{"see all that it says: kubectl describe service " + s.Name + " -n " + s.Namespace}}
	}
	if runs, sure := l.runs("load-balancer"); l.Callers == nil && !runs && !sure {
		return &Finding{Says: "waits for an address from " + who + "; whether one runs is not known here", Owner: who, State: Waiting,
			Waits: on("Field", refTo(l.kind, s), "status.loadBalancer.ingress"), Next: does(who, "gives it an address, if it runs"),
			Advice: []string{"a cluster that is no cloud's needs one of its own, such as MetalLB: kubectl get pods -A",
				"or use type NodePort: kubectl patch service " + s.Name + " -n " + s.Namespace + ` -p '{"spec":{"type":"NodePort"}}'`}}
	}
	if class := ptr.Deref(s.Spec.LoadBalancerClass, ""); class != "" {
		return &Finding{Says: "is left to who serves its loadBalancerClass " + class + ", and nobody here is known to",
			Owner: who, State: Missing,
			Waits: on("Field", refTo(l.kind, s), "status.loadBalancer.ingress"), Next: does(who, "gives it an address when it runs"),
			Advice: []string{"install or start the controller of the class: kubectl get pods -A",
				"or make the service anew without spec.loadBalancerClass, so that the cluster's own load balancer takes it"}}
	}
	return &Finding{Says: "waits for an address, which nobody gives to services of type LoadBalancer here", Owner: who, State: Missing,
		Waits: on("Field", refTo(l.kind, s), "status.loadBalancer.ingress"),
		Next:  does(who, "gives it an address when it runs"),
		Advice: []string{"install a load balancer controller and give it addresses",
			"or use type NodePort: the service is reachable inside the cluster meanwhile"}}
}

// noEndpoints: the service has no selector, so that somebody has to say what it leads to, and nobody did.
func noEndpoints(l *look, s *corev1.Service) *Finding {
	if len(s.Spec.Selector) > 0 {
		return nil
	}
	if by, slice := slicesOf(l.World, s); by != "" {
		return &Finding{Says: "has no selector, and what somebody made for it has other ports: " + by, Owner: person, State: Blocked,
			Waits:  on("Field", refTo(l.kind, s), "spec.ports"),
			Next:   does(person, "gives the ports the same names, here or there"),
			Advice: []string{"kubectl edit endpointslice " + slice + " -n " + s.Namespace}}
	}
	says := "has no selector, and nobody made endpoints for it"
	for obj := range l.Read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		if slice := obj.(*discoveryv1.EndpointSlice); !suits(s, slice) {
			says = "has no selector, and what somebody made for it, endpointslice/" + slice.Name + ", has addresses of type " +
				string(slice.AddressType) + ", while the service has " + list(words(s.Spec.IPFamilies), 2)
		}
	}
	for _, other := range resource.List(l.Read, kinds.EndpointSlices, s.Namespace) {
		of := other.Labels[discoveryv1.LabelServiceName]
		if of != "" && likest(of, []string{s.Name}) != "" && resource.Get(l.Read, kinds.Services, s.Namespace, of) == nil {
			says += "; endpointslice/" + other.Name + " is labelled for a service " + of + ", which does not exist"
			break
		}
	}
	return &Finding{Says: says, Owner: person, State: Blocked,
		Waits:  on("Field", refTo(l.kind, s), "spec.selector"),
		Next:   does(person, "gives it a selector, or an EndpointSlice with the label %s=%s", discoveryv1.LabelServiceName, s.Name),
		Advice: []string{"give it the labels of the pods that are meant: kubectl set selector service " + s.Name + " app=NAME -n " + s.Namespace}}
}

func nothingSelected(l *look, s *corev1.Service) *Finding {
	if len(selected(l.World, s)) > 0 || !l.Sees(kinds.Pods, s.Namespace) {
		return nil
	}
	sel := labels.Set(s.Spec.Selector).String()
	says := "selects no pod: none in namespace " + s.Namespace + " has the labels " + sel
	if ended := endedFor(l.World, s); len(ended) > 0 {
		says = "selects only pods that have ended: " + list(ended, 3)
	}
	f := &Finding{Says: says, State: Blocked,
		Waits:  on("Field", refTo(l.kind, s), "spec.selector"),
		Next:   does(l.owner, "adds pods with these labels when there are some"),
		Advice: []string{"compare the selector with the pods' labels: kubectl get pods --show-labels -n " + s.Namespace}}
	if near := l.nearly(s); near != "" {
		f.Says, f.Advice = f.Says+"; "+near, append([]string{"correct spec.selector, if these are the pods that are meant"}, f.Advice...)
	}
	f.Below = l.makersFor(s)
	if len(f.Below) > 0 {
		first := named(f.Below[0].Kind, s.Namespace, f.Below[0].Name)
		f.Says, f.State, f.Advice = "selects the pods of "+first.Short()+", which has none", Waiting, nil
	}
	return f
}

// nearly names a workload whose pods lack a single label of the service's selector, and have another value in its place.
func (l *look) nearly(s *corev1.Service) string {
	try := func(k resource.Kind, obj resource.Object, has map[string]string) string {
		off := ""
		for key, want := range s.Spec.Selector {
			got, is := has[key]
			switch {
			case is && got == want:
			case !is || off != "" || len(s.Spec.Selector) == 1 && strict.Meant(want, []string{got}) == "":
				return ""
			default:
				off = fmt.Sprintf("those of %s have %s=%s", new(objectOf(k, obj)).Short(), key, got)
			}
		}
		return off
	}
	for _, d := range resource.List(l.Read, kinds.Deployments, s.Namespace) {
		if near := try(kinds.Deployments, d, d.Spec.Template.Labels); near != "" {
			return near
		}
	}
	for _, d := range resource.List(l.Read, kinds.StatefulSets, s.Namespace) {
		if near := try(kinds.StatefulSets, d, d.Spec.Template.Labels); near != "" {
			return near
		}
	}
	return ""
}

// makersFor are the workloads whose pods the service would select, as far as they are not well.
func (l *look) makersFor(s *corev1.Service) (list []Ref) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	add := func(k resource.Kind, obj resource.Object, template map[string]string) {
		if sel.Matches(labels.Set(template)) && !l.Health(k, obj).Converged() {
			list = append(list, refTo(k, obj))
		}
	}
	for _, d := range resource.List(l.Read, kinds.Deployments, s.Namespace) {
		add(kinds.Deployments, d, d.Spec.Template.Labels)
	}
	for _, d := range resource.List(l.Read, kinds.StatefulSets, s.Namespace) {
		add(kinds.StatefulSets, d, d.Spec.Template.Labels)
	}
	for _, d := range resource.List(l.Read, kinds.DaemonSets, s.Namespace) {
		add(kinds.DaemonSets, d, d.Spec.Template.Labels)
	}
	return list
}

func backendsNotReady(l *look, s *corev1.Service) *Finding {
	var bad []*corev1.Pod
	for _, p := range selected(l.World, s) {
		if c := podCondition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue && portMissing(l, s) != nil {
			return nil // those that are ready have not its port: the others would be of no use
		}
		if !l.Health(kinds.Pods, p).Converged() {
			bad = append(bad, p)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return &Finding{Says: fmt.Sprintf("selects %s, of which none is ready", count(len(bad), "pod")), State: Waiting,
		Waits: on("Object", refTo(kinds.Pods, bad[0]), "status.conditions[Ready]"),
		Next:  does(l.owner, "adds them when they are ready"), Below: refs(kinds.Pods, bad)}
}

// portMissing: the pods are ready, and none has a port of the name that the service leads to.
func portMissing(l *look, s *corev1.Service) *Finding {
	open, _ := openPorts(l.World, s)
	for _, port := range s.Spec.Ports {
		name := port.TargetPort.StrVal
		if name == "" || open[port.Name] {
			continue
		}
		says := "leads to the port " + name + ", which none of its pods names"
		over := cmp.Or(string(port.Protocol), "TCP")
		if named := l.portsNamed(s, over); slices.Contains(named, name) {
			continue
		}
		if all := l.portsNamed(s, ""); slices.Contains(all, name) {
			says = "leads to the port " + name + " over " + over + ", and its pods have that name for a port of another protocol"
		} else if len(all) > 0 {
			says += "; they name " + list(all, 3)
		}
		return &Finding{Says: says, State: Blocked, Waits: on("Field", refTo(l.kind, s), "spec.ports[].targetPort"),
			Next:   does(l.owner, "adds the pods when they have such a port"),
			Advice: []string{"name the container's port " + name + ", or correct targetPort"}}
	}
	return nil
}

// portsNamed are the names that the pods of a service give to ports of a protocol; "": of any.
func (l *look) portsNamed(s *corev1.Service, protocol string) (names []string) {
	for _, p := range selected(l.World, s) {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, has := range c.Ports {
				if has.Name != "" && !slices.Contains(names, has.Name) && (protocol == "" || protocol == cmp.Or(string(has.Protocol), "TCP")) {
					names = append(names, has.Name)
				}
			}
		}
	}
	return names
}

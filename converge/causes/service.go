package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// services are the ways in which a service leads nowhere.
func services() []converge.Situation {
	service := func(see func(l *converge.Look, s *corev1.Service) *converge.Finding) func(l *converge.Look) *converge.Finding {
		return func(l *converge.Look) *converge.Finding { return see(l, l.Obj.(*corev1.Service)) }
	}
	of := []resource.Kind{kinds.Services}
	return []converge.Situation{
		{Name: "AliasLeadsNowhere", Of: of, See: service(aliasLeadsNowhere)},
		{Name: "LoadBalancerMissing", Of: of, See: service(loadBalancerMissing)},
		{Name: "NoEndpoints", Of: of, See: service(noEndpoints)},
		{Name: "NothingSelected", Of: of, See: service(nothingSelected)},
		{Name: "BackendsNotReady", Of: of, See: service(backendsNotReady)},
		{Name: "PortMissing", Of: of, See: service(portMissing)},
	}
}

func loadBalancerMissing(l *converge.Look, s *corev1.Service) *converge.Finding {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	who := cmp.Or(ptr.Deref(s.Spec.LoadBalancerClass, ""), "the load balancer controller")
	why, e := "", general.NewestWarning(l)
	if e != nil {
		why = e.Message
	}
	for _, c := range s.Status.Conditions {
		if c.Status == "False" && l.Owner != "load-balancer" {
			why = cmp.Or(c.Message, why)
		}
	}
	if why != "" {
		f := &converge.Finding{Says: "gets no address: " + words.OneLine(why), Owner: who, State: converge.BackingOff,
			Error:  general.TextOnly(why),
			Waits:  l.Field("status.loadBalancer.ingress"),
			Next:   converge.Does(who, "tries again"),
			Advice: []string{"see all that it says: kubectl describe service " + converge.Called(l)}}
		usedUp(l, f, why)
		unmixed(f, s, why)
		anyAddress(f, s, why)
		return f
	}
	if runs, sure := l.Runs("load-balancer"); l.Callers == nil && !runs && !sure {
		f := &converge.Finding{Says: "waits for an address from " + who + "; whether one runs is not known here", Owner: who,
			State: converge.Waiting,
			Waits: l.Field("status.loadBalancer.ingress"),
			Next:  converge.Does(who, "gives it an address, if it runs"),
			Advice: []string{"a cluster that is no cloud's needs one of its own, such as MetalLB: kubectl get pods -A",
				"or use type NodePort: kubectl patch service " + converge.Called(l) + ` -p '{"spec":{"type":"NodePort"}}'`}}
		if s.Spec.LoadBalancerClass != nil {
			f.Advice = []string{"see whether what answers to that class runs, and is set up to give addresses: kubectl get pods -A",
				"or make the service anew without spec.loadBalancerClass: then any that gives addresses may"}
		}
		return f
	}
	if class := ptr.Deref(s.Spec.LoadBalancerClass, ""); class != "" {
		return &converge.Finding{Says: "is left to who serves its loadBalancerClass " + class + ", and nobody here is known to",
			Owner: who, State: converge.Missing,
			Waits: l.Field("status.loadBalancer.ingress"),
			Next:  converge.Does(who, "gives it an address when it runs"),
			Advice: []string{"install or start the controller of the class: kubectl get pods -A",
				"or make the service anew without spec.loadBalancerClass, so that the cluster's own load balancer takes it"}}
	}
	return &converge.Finding{Says: "waits for an address, which nobody gives to services of type LoadBalancer here", Owner: who,
		State: converge.Missing,
		Waits: l.Field("status.loadBalancer.ingress"),
		Next:  converge.Does(who, "gives it an address when it runs"),
		Advice: []string{"install a load balancer controller and give it addresses",
			"or use type NodePort: the service is reachable inside the cluster meanwhile"}}
}

// noEndpoints: the service has no selector, so that somebody has to say what it leads to, and nobody did.
func noEndpoints(l *converge.Look, s *corev1.Service) *converge.Finding {
	if len(s.Spec.Selector) > 0 {
		return nil
	}
	if by, slice := slicesOf(l.World, s); by != "" {
		return &converge.Finding{Says: "has no selector, and what somebody made for it has other ports: " + by, Owner: converge.Person,
			State:  converge.Blocked,
			Waits:  l.Field("spec.ports"),
			Next:   converge.PersonDoes("gives the ports the same names, here or there"),
			Advice: []string{"kubectl edit endpointslice " + slice + " -n " + s.Namespace}}
	}
	says := "has no selector, and nobody made endpoints for it"
	for obj := range l.Read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		if slice := obj.(*discoveryv1.EndpointSlice); !general.Suits(s, slice) {
			says = "has no selector, and what somebody made for it, endpointslice/" + slice.Name + ", has addresses of type " +
				string(slice.AddressType) + ", while the service has " + words.List(words.Texts(s.Spec.IPFamilies), 2)
		}
	}
	for _, other := range resource.List(l.Read, kinds.EndpointSlices, s.Namespace) {
		of := other.Labels[discoveryv1.LabelServiceName]
		if of != "" && converge.Likest(of, []string{s.Name}) != "" && resource.Get(l.Read, kinds.Services, s.Namespace, of) == nil {
			says += "; endpointslice/" + other.Name + " is labelled for a service " + of + ", which does not exist"
			break
		}
	}
	return &converge.Finding{Says: says, Owner: converge.Person, State: converge.Blocked,
		Waits: l.Field("spec.selector"),
		Next: converge.PersonDoes("gives it a selector, or an EndpointSlice with the label %s=%s",
			discoveryv1.LabelServiceName, s.Name),
		Advice: []string{"give it the labels of the pods that are meant: kubectl set selector service " + s.Name + " app=NAME -n " +
			s.Namespace}}
}

func nothingSelected(l *converge.Look, s *corev1.Service) *converge.Finding {
	if len(general.Selected(l.World, s)) > 0 || !l.Sees(kinds.Pods, s.Namespace) {
		return nil
	}
	sel := labels.Set(s.Spec.Selector).String()
	says := "selects no pod: none in namespace " + s.Namespace + " has the labels " + sel
	if ended := endedFor(l.World, s); len(ended) > 0 {
		says = "selects only pods that have ended: " + words.List(ended, 3)
	}
	f := &converge.Finding{Says: says, State: converge.Blocked,
		Waits:  l.Field("spec.selector"),
		Next:   converge.Does(l.Owner, "adds pods with these labels when there are some"),
		Advice: []string{"compare the selector with the pods' labels: kubectl get pods --show-labels -n " + s.Namespace}}
	if near := nearly(l, s); near != "" {
		correct := "correct spec.selector, if these are the pods that are meant: kubectl edit service " + s.Name + " -n " + s.Namespace
		if key, value, is := strings.Cut(near[strings.LastIndex(near, " ")+1:], "="); is {
			correct = "correct spec.selector, if these are the pods that are meant: kubectl patch service " + s.Name + " -n " + s.Namespace +
				` -p '{"spec":{"selector":{"` + key + `":"` + value + `"}}}'`
		} else if _, key, is = strings.Cut(near, " no label "); is {
			correct = "leave " + key + " out of spec.selector, if these are the pods that are meant: " +
				converge.Merged(converge.RefTo(kinds.Services, s), nil, "spec", "selector", key)
		}
		f.Says, f.Advice = f.Says+"; "+near, append([]string{correct}, f.Advice...)
	}
	if in := selectedElsewhere(l.World, s); in != nil && !strings.Contains(f.Says, "; ") {
		f.Says += "; pods with these labels are in namespace " + in.Namespace + ", and a service leads to pods of its own alone"
		f.Advice = []string{"make it where they are, and call it " + s.Name + "." + in.Namespace + ": kubectl expose pod " + in.Name + " -n " +
			in.Namespace + " --name=" + s.Name + " --port=" + strconv.Itoa(int(s.Spec.Ports[0].Port)) + " --target-port=" +
			cmp.Or(strings.TrimPrefix(s.Spec.Ports[0].TargetPort.String(), "0"), strconv.Itoa(int(s.Spec.Ports[0].Port)))}
	}
	f.Below = makersFor(l, s)
	if len(f.Below) > 0 {
		first := converge.Named(f.Below[0].Kind, s.Namespace, f.Below[0].Name)
		f.Says, f.State, f.Advice = "selects the pods of "+first.Short()+", which has none", converge.Waiting, nil
	}
	return f
}

// selectedElsewhere is a pod of another namespace that a service would select in its own; nil: none is seen.
func selectedElsewhere(w *converge.World, s *corev1.Service) *corev1.Pod {
	if len(s.Spec.Ports) == 0 || !w.Sees(kinds.Pods, "") {
		return nil
	}
	for key, value := range s.Spec.Selector {
		for obj := range w.Read.ByLabel(kinds.Pods, "", key, value) {
			p := resource.As[*corev1.Pod](obj)
			if p.Namespace != s.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) && !core.Terminal(p) {
				return p
			}
		}
		break
	}
	return nil
}

// nearly names a workload, or a pod that is of none, without a single label of the service's selector, or with another value in its place.
func nearly(l *converge.Look, s *corev1.Service) string {
	try := func(k resource.Kind, obj resource.Object, has map[string]string) string {
		off := ""
		for key, want := range s.Spec.Selector {
			got, is := has[key]
			switch {
			case is && got == want:
			case off != "" || len(s.Spec.Selector) == 1 && strict.Meant(want, []string{got}) == "" &&
				got != s.Name && !strings.HasPrefix(got, s.Name+"-"):
				return ""
			case !is:
				off = fmt.Sprintf("those of %s have no label %s", new(converge.ObjectOf(k, obj)).Short(), key)
			default:
				off = fmt.Sprintf("those of %s have %s=%s", new(converge.ObjectOf(k, obj)).Short(), key, got)
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
	for _, p := range resource.List(l.Read, kinds.Pods, s.Namespace) {
		if near := try(kinds.Pods, p, p.Labels); near != "" && !core.Terminal(p) {
			return strings.Replace(near, "those of pod/"+p.Name+" have", "pod/"+p.Name+" has", 1)
		}
	}
	return ""
}

// makersFor are the workloads whose pods the service would select, as far as they are not well.
func makersFor(l *converge.Look, s *corev1.Service) (list []converge.Ref) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	add := func(k resource.Kind, obj resource.Object, template map[string]string) {
		if sel.Matches(labels.Set(template)) && !l.Health(k, obj).Converged() {
			list = append(list, converge.RefTo(k, obj))
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

func backendsNotReady(l *converge.Look, s *corev1.Service) *converge.Finding {
	var bad []*corev1.Pod
	for _, p := range general.Selected(l.World, s) {
		if c := general.PodCondition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue && portMissing(l, s) != nil {
			return nil // those that are ready have not its port: the others would be of no use
		}
		if !l.Health(kinds.Pods, p).Converged() {
			bad = append(bad, p)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return &converge.Finding{Says: fmt.Sprintf("selects %s, of which none is ready", words.Count(len(bad), "pod")), State: converge.Waiting,
		Waits: converge.On("Object", converge.RefTo(kinds.Pods, bad[0]), "status.conditions[Ready]"),
		Next:  converge.Does(l.Owner, "adds them when they are ready"), Below: converge.Refs(kinds.Pods, bad)}
}

// portMissing: the pods are ready, and none has a port of the name that the service leads to.
func portMissing(l *converge.Look, s *corev1.Service) *converge.Finding {
	open, _ := general.OpenPorts(l.World, s)
	for i, port := range s.Spec.Ports {
		name := port.TargetPort.StrVal
		if name == "" || open[port.Name] {
			continue
		}
		says, flip := "leads to the port "+name+", which none of its pods names", []string(nil)
		over := cmp.Or(string(port.Protocol), "TCP")
		if named := portsNamed(l, s, over); slices.Contains(named, name) {
			continue
		}
		if all := portsNamed(l, s, ""); slices.Contains(all, name) {
			says = "leads to the port " + name + " over " + over + ", and its pods have that name for a port of another protocol"
			flip = []string{"if that one is meant: " + converge.Patched(converge.RefTo(l.Kind, s), converge.Add(converge.Pointer("spec", "ports",
				strconv.Itoa(i), "protocol"), map[string]string{"TCP": "UDP", "UDP": "TCP", "SCTP": "TCP"}[over]))}
		} else if len(all) > 0 {
			says += "; they name " + words.List(all, 3)
		}
		f := &converge.Finding{Says: says, State: converge.Blocked, Waits: l.Field("spec.ports[].targetPort"),
			Next:   converge.Does(l.Owner, "adds the pods when they have such a port"),
			Advice: []string{"name the container's port " + name + ", or correct targetPort: kubectl edit service " + converge.Called(l)}}
		path := converge.Pointer("spec", "ports", strconv.Itoa(i), "targetPort")
		if c := converge.Choices(name, portsNamed(l, s, over), func(port string) string {
			return converge.Patched(converge.RefTo(l.Kind, s), converge.Put(path, port))
		}); len(c) > 0 {
			f.Advice = c
		}
		f.Advice = append(flip, f.Advice...)
		return f
	}
	return nil
}

// portsNamed are the names that the pods of a service give to ports of a protocol; "": of any.
func portsNamed(l *converge.Look, s *corev1.Service, protocol string) (names []string) {
	for _, p := range general.Selected(l.World, s) {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, has := range c.Ports {
				if has.Name != "" && !slices.Contains(names, has.Name) &&
					(protocol == "" || protocol == cmp.Or(string(has.Protocol), "TCP")) {
					names = append(names, has.Name)
				}
			}
		}
	}
	return names
}

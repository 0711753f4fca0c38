package converge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// aliasOf is the service of this cluster that a service of type ExternalName is a name for. Below other domains, as clusterset.local, are
// services of other clusters.
func aliasOf(s *corev1.Service) (r Ref, ok bool) {
	host, is := strings.CutSuffix(strings.TrimSuffix(strings.TrimSuffix(s.Spec.ExternalName, "."), ".cluster.local"), ".svc")
	name, ns, whole := strings.Cut(host, ".")
	return Ref{kinds.Services, ns, name}, is && whole && !strings.Contains(ns, ".")
}

// aliasHealth finds a gap in a service that is a name for what no name can stand for, or for what does not exist.
func aliasHealth(w *World, s *corev1.Service) Health {
	want := "spec.externalName=" + s.Spec.ExternalName
	if _, err := netip.ParseAddr(s.Spec.ExternalName); err == nil {
		return Health{Says: "leads nowhere", Want: want, Have: "an address, not a name"}
	}
	if r, ok := aliasOf(s); ok && w.Sees(kinds.Services, r.NS) && resource.Get(w.Read, kinds.Services, r.NS, r.Name) == nil {
		return Health{Says: "leads nowhere", Want: want, Have: "no such service"}
	}
	if circle(w, s) != "" {
		return Health{Says: "leads nowhere", Want: want, Have: "a circle of names"}
	}
	return Health{}
}

// circle words the names that lead from a service to itself, or to a circle; "": they lead out.
func circle(w *World, s *corev1.Service) string {
	seen := []string{s.Namespace + "/" + s.Name}
	for s != nil && s.Spec.Type == corev1.ServiceTypeExternalName {
		r, ok := aliasOf(s)
		if name := r.NS + "/" + r.Name; ok && slices.Contains(seen, name) {
			return strings.Join(append(seen, name), " → ")
		} else if seen = append(seen, name); !ok {
			return ""
		}
		s = resource.Get(w.Read, kinds.Services, r.NS, r.Name)
	}
	return ""
}

// aliasLeadsNowhere tells of an ExternalName that no resolver can follow. DNS takes whatever stands there for a name, addresses too,
// as the docs of ServiceSpec.externalName warn, and a name below the cluster's own domain leads somewhere only while that service exists.
func aliasLeadsNowhere(l *look, s *corev1.Service) *Finding {
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		return nil
	}
	f := &Finding{Says: "is a name for the address " + s.Spec.ExternalName + ", and the DNS takes that for a name, which nobody has",
		Owner: person, State: Blocked, Waits: on("Field", refTo(l.kind, s), "spec.externalName"),
		Next: does(person, "makes a service without a selector, and an EndpointSlice with the address, in its place"),
		Advice: []string{"an address behind a service is said by an EndpointSlice with the label " + discoveryv1.LabelServiceName + "=" + s.Name +
			", not by externalName: kubectl edit service " + s.Name + " -n " + s.Namespace}}
	if names := circle(l.World, s); names != "" {
		f.Says, f.Next = "is a name in a circle of names: "+names, does(person, "has one of them name something else")
		f.Advice = []string{"kubectl edit service " + s.Name + " -n " + s.Namespace}
	} else if r, ok := aliasOf(s); ok {
		f.Says = "is a name for service/" + r.Name + " in namespace " + r.NS + ", which does not exist"
		f.Next, f.Waits = does(person, "creates that service, or names another one"), on("Object", r, "")
		f.Advice = []string{"those that exist: kubectl get services -n " + r.NS}
	}
	return f
}

// slicesOf words the ports of the slices that somebody made for a service, beside its own; "": there are no endpoints in them.
func slicesOf(w *World, s *corev1.Service) (words, first string) {
	var theirs []string
	for obj := range w.Read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		slice := obj.(*discoveryv1.EndpointSlice)
		for _, p := range slice.Ports {
			if len(slice.Endpoints) > 0 && suits(s, slice) {
				first = slice.Name
				theirs = append(theirs, fmt.Sprintf("endpointslice/%s has %q", slice.Name, ptr.Deref(p.Name, "")))
			}
		}
	}
	if len(theirs) == 0 {
		return "", ""
	}
	slices.Sort(theirs)
	var ours []string
	for _, p := range s.Spec.Ports {
		ours = append(ours, fmt.Sprintf("%q", p.Name))
	}
	return list(theirs, 3) + ", the service " + list(ours, 3), first
}

// endedFor names the pods that a service would select and that have ended.
func endedFor(w *World, s *corev1.Service) (names []string) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	for _, p := range resource.List(w.Read, kinds.Pods, s.Namespace) {
		if sel.Matches(labels.Set(p.Labels)) {
			names = append(names, "pod/"+p.Name)
		}
	}
	slices.Sort(names)
	return names
}

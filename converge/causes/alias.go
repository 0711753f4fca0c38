package causes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// aliasLeadsNowhere tells of an ExternalName that no resolver can follow. DNS takes whatever stands there for a name, addresses too,
// as the docs of ServiceSpec.externalName warn, and a name below the cluster's own domain leads somewhere only while that service exists.
func aliasLeadsNowhere(l *converge.Look, s *corev1.Service) *converge.Finding {
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		return nil
	}
	f := &converge.Finding{Says: "is a name for the address " + s.Spec.ExternalName +
		", and the DNS takes that for a name, which nobody has",
		Owner: converge.Person, State: converge.Blocked, Waits: l.Field("spec.externalName"),
		Next: converge.PersonDoes("makes a service without a selector, and an EndpointSlice with the address, in its place"),
		Advice: []string{"an address behind a service is said by an EndpointSlice with the label " + discoveryv1.LabelServiceName + "=" +
			s.Name +
			", not by externalName: kubectl edit service " + s.Name + " -n " + s.Namespace}}
	if names := general.Circle(l.World, s); names != "" {
		f.Says, f.Next = "is a name in a circle of names: "+names, converge.PersonDoes("has one of them name something else")
		f.Advice = []string{"kubectl edit service " + s.Name + " -n " + s.Namespace}
	} else if r, ok := general.AliasOf(s); ok {
		f.Says = "is a name for service/" + r.Name + " in namespace " + r.NS + ", which does not exist"
		f.Next, f.Waits = converge.PersonDoes("creates that service, or names another one"), converge.On("Object", r, "")
		f.Advice = []string{"those that exist: kubectl get services -n " + r.NS}
	}
	return f
}

// slicesOf words the ports of the slices that somebody made for a service, beside its own; "": there are no endpoints in them.
func slicesOf(w *converge.World, s *corev1.Service) (said, first string) {
	var theirs []string
	for obj := range w.Read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		slice := obj.(*discoveryv1.EndpointSlice)
		for _, p := range slice.Ports {
			if len(slice.Endpoints) > 0 && general.Suits(s, slice) {
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
	return words.List(theirs, 3) + ", the service " + words.List(ours, 3), first
}

// endedFor names the pods that a service would select and that have ended.
func endedFor(w *converge.World, s *corev1.Service) (names []string) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	for _, p := range resource.List(w.Read, kinds.Pods, s.Namespace) {
		if sel.Matches(labels.Set(p.Labels)) {
			names = append(names, "pod/"+p.Name)
		}
	}
	slices.Sort(names)
	return names
}

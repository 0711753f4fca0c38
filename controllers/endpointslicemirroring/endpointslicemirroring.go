// Package endpointslicemirroring copies Endpoints that people write by hand into slices.
//
//	reads   Endpoints, Service, EndpointSlice
//	writes  EndpointSlice: create, update, delete
//	rule    the Endpoints of a service without a selector have one slice per subset and address family
package endpointslicemirroring

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const (
	managedBy = "endpointslicemirroring-controller.k8s.io"
	leader    = "control-plane.alpha.kubernetes.io/leader" // Endpoints that are a lock
	most      = 1000                                       // addresses of a subset
)

// Controller is the loop: wake on Endpoints, on the Service of their name, and on the slices.
var Controller = &loop.Controller[*corev1.Endpoints]{
	Name:      "endpointslice-mirroring",
	For:       kinds.Endpoints,
	Wake:      []loop.Wake{loop.Same(kinds.Services), {Kind: kinds.EndpointSlices, Keys: sliceChanged}},
	Writes:    []resource.Kind{kinds.EndpointSlices},
	Rest:      50 * time.Millisecond,
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, e *corev1.Endpoints) (time.Duration, error) {
	var have []*discoveryv1.EndpointSlice // observe
	for obj := range c.ByLabel(kinds.EndpointSlices, e.Namespace, discoveryv1.LabelServiceName, e.Name) {
		if es := obj.(*discoveryv1.EndpointSlice); es.Labels[discoveryv1.LabelManagedBy] == managedBy {
			have = append(have, es)
		}
	}
	var want []*discoveryv1.EndpointSlice // decide
	if mirrored(e, resource.Get(c, kinds.Services, e.Namespace, e.Name)) {
		want = slices(e)
		if n := skipped(e); n > 0 {
			c.Event(kinds.Endpoints, e, corev1.EventTypeWarning, "TooManyAddressesToMirror",
				"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", most, n)
		}
	}
	err := act(ctx, c, have, want)                                              // act
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // somebody else was faster: we look again
		c.Event(kinds.Endpoints, e, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Endpoints %s/%s: %v", e.Namespace, e.Name, err)
	}
	return 0, err
}

// skipped is the number of addresses that are too many.
func skipped(e *corev1.Endpoints) (n int) {
	for i := range e.Subsets {
		n += max(0, len(e.Subsets[i].Addresses)+len(e.Subsets[i].NotReadyAddresses)-most)
	}
	return n
}

// mirrored says whether the Endpoints are somebody's own and meant to be seen.
func mirrored(e *corev1.Endpoints, s *corev1.Service) bool {
	_, lock := e.Annotations[leader]
	return s != nil && len(s.Spec.Selector) == 0 && s.Spec.Type != corev1.ServiceTypeExternalName && !lock &&
		e.DeletionTimestamp == nil && e.Labels[discoveryv1.LabelSkipMirror] != "true"
}

// act turns the slices there are into the wanted ones: those of the same family are updated, one by one.
func act(ctx context.Context, c *loop.Ctx, have, want []*discoveryv1.EndpointSlice) error {
	var errs []error
	used := map[*discoveryv1.EndpointSlice]bool{}
	for _, w := range want {
		cur := match(have, used, w)
		if cur == nil {
			_, err := c.Create(ctx, kinds.EndpointSlices, w)
			if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				errs = append(errs, err)
			}
			continue
		}
		used[cur] = true
		if equality.Semantic.DeepEqual(cur.Endpoints, w.Endpoints) && equality.Semantic.DeepEqual(cur.Ports, w.Ports) &&
			maps.Equal(cur.Labels, w.Labels) && maps.Equal(cur.Annotations, w.Annotations) {
			continue
		}
		next := resource.Clone(cur)
		if next.GenerateName = ""; !equality.Semantic.DeepEqual(cur.Ports, w.Ports) { // as upstream, that makes another slice for other ports
			next.GenerateName = w.GenerateName
		}
		next.Endpoints, next.Ports, next.Labels, next.Annotations = w.Endpoints, w.Ports, w.Labels, w.Annotations
		errs = append(errs, c.Update(ctx, kinds.EndpointSlices, next))
	}
	for _, es := range have {
		if !used[es] {
			errs = append(errs, c.Delete(ctx, kinds.EndpointSlices, es))
		}
	}
	return errors.Join(errs...)
}

// match finds the slice to become w: one with the same ports, or any of the family.
func match(have []*discoveryv1.EndpointSlice, used map[*discoveryv1.EndpointSlice]bool,
	w *discoveryv1.EndpointSlice) (best *discoveryv1.EndpointSlice) {
	for _, es := range have {
		if used[es] || es.AddressType != w.AddressType || es.DeletionTimestamp != nil {
			continue
		}
		if equality.Semantic.DeepEqual(es.Ports, w.Ports) {
			return es
		}
		best = es
	}
	return best
}

// slices is pure: the slices that mirror e.
func slices(e *corev1.Endpoints) (list []*discoveryv1.EndpointSlice) {
	for i := range e.Subsets {
		sub := &e.Subsets[i]
		byFamily := map[discoveryv1.AddressType][]discoveryv1.Endpoint{}
		n := 0
		add := func(addresses []corev1.EndpointAddress, ready bool) {
			for j := range addresses {
				if n++; n > most {
					return
				}
				family := discoveryv1.AddressTypeIPv4
				if strings.Contains(addresses[j].IP, ":") {
					family = discoveryv1.AddressTypeIPv6
				}
				byFamily[family] = append(byFamily[family], endpoint(&addresses[j], ready))
			}
		}
		add(sub.Addresses, true)
		add(sub.NotReadyAddresses, false)
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			if len(byFamily[family]) > 0 {
				es := empty(e)
				es.AddressType, es.Endpoints, es.Ports = family, byFamily[family], ports(sub.Ports)
				list = append(list, es)
			}
		}
	}
	return list
}

func empty(e *corev1.Endpoints) *discoveryv1.EndpointSlice {
	labels := map[string]string{}
	maps.Copy(labels, e.Labels)
	labels[discoveryv1.LabelServiceName], labels[discoveryv1.LabelManagedBy] = e.Name, managedBy
	annotations := map[string]string{}
	for k, v := range e.Annotations {
		if k != corev1.LastAppliedConfigAnnotation && k != corev1.EndpointsLastChangeTriggerTime {
			annotations[k] = v
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	const longest = 63 - 6
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace,
		GenerateName: e.Name[:min(len(e.Name), longest)] + "-",
		Labels:       labels, Annotations: annotations, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e,
			kinds.Endpoints.GVK)}}}
}

func endpoint(a *corev1.EndpointAddress, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: a.TargetRef, NodeName: a.NodeName}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e
}

func ports(list []corev1.EndpointPort) (out []discoveryv1.EndpointPort) {
	for i := range list {
		p := &list[i]
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return out
}

// sliceChanged wakes the Endpoints of a mirror that somebody touched.
func sliceChanged(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	obj := c.Object()
	if name := obj.GetLabels()[discoveryv1.LabelServiceName]; name != "" && obj.GetLabels()[discoveryv1.LabelManagedBy] == managedBy {
		wake(obj.GetNamespace(), name)
	}
}

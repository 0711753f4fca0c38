// Package endpointslice publishes the pods behind every service, a hundred to a slice.
//
//	reads   Service, the Pods its selector matches, their Nodes' zones, EndpointSlice
//	writes  EndpointSlice: create, update, delete
//	rule    the slices of a service with a selector list every pod that has an address and has not ended, once per address
//	        family, with its conditions; as few slices change as possible
package endpointslice

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/backends"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// managedBy marks the slices that this loop owns.
const managedBy = "endpointslice-controller.k8s.io"

// rest bounds how often a service with many pods is looked at while they come and go.
const rest = 50 * time.Millisecond

// Controller is the loop: wake on a Service, on what endpoints tell of its Pods, on its slices and on zones.
var Controller = &loop.Controller[*corev1.Service]{
	Name: "endpointslice",
	For:  kinds.Services,
	Wake: []loop.Wake{
		{Kind: kinds.Pods, Keys: backends.Concerned},
		{Kind: kinds.EndpointSlices, Keys: sliceChanged},
		{Kind: kinds.Nodes, Keys: zoneChanged}},
	Writes:    []resource.Kind{kinds.EndpointSlices},
	Rest:      rest,
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, s *corev1.Service) (time.Duration, error) {
	if !backends.Selects(s) || s.DeletionTimestamp != nil {
		return 0, nil
	}
	have := mine(c, s) // observe
	before := given(have)
	list, ended := backends.Of(c, s)
	want := wanted(s, list, func(node string) string {
		if n := resource.Get(c, kinds.Nodes, "", node); n != nil {
			return n.Labels[corev1.LabelTopologyZone]
		}
		return ""
	})
	if automatic(s) {
		spread(c, s, want, before)
	} else if len(before) > 0 && s.Spec.TrafficDistribution == nil {
		c.Event(kinds.Services, s, corev1.EventTypeWarning, "TopologyAwareHintsDisabled", "Topology Aware Hints has been disabled")
	}
	err := act(ctx, c, plan(s, want, have, ended)) // decide, act
	if err != nil && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // somebody else was faster: we look again
		c.Event(kinds.Services, s, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", s.Namespace, s.Name, err)
	}
	return 0, err
}

// spread divides the endpoints among zones, family by family, and tells whether that could be done.
func spread(c *loop.Ctx, s *corev1.Service, want []*group, before map[string]string) {
	parts := shares(resource.List(c, kinds.Nodes, ""))
	for _, family := range families(s) {
		var groups []*group
		for _, g := range want {
			if g.family == family {
				groups = append(groups, g)
			}
		}
		switch why := divide(groups, parts, before); {
		case why != "":
			for _, g := range groups {
				for i := range g.endpoints {
					g.endpoints[i].Hints = nil
				}
			}
			c.Event(kinds.Services, s, corev1.EventTypeWarning, "TopologyAwareHintsDisabled", "%s, addressType: %s", why, family)
		case len(before) == 0:
			c.Event(kinds.Services, s, corev1.EventTypeNormal, "TopologyAwareHintsEnabled",
				"Topology Aware Hints has been enabled, addressType: %s", family)
		}
	}
}

// mine returns the slices of the service that this loop owns.
func mine(read resource.Reader, s *corev1.Service) (list []*discoveryv1.EndpointSlice) {
	for obj := range read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		es := obj.(*discoveryv1.EndpointSlice)
		if es.Labels[discoveryv1.LabelManagedBy] == managedBy && es.DeletionTimestamp == nil {
			list = append(list, es)
		}
	}
	return list
}

func act(ctx context.Context, c *loop.Ctx, t todo) error {
	var errs []error
	for _, es := range t.create {
		_, err := c.Create(ctx, kinds.EndpointSlices, es)
		errs = append(errs, err)
	}
	for _, es := range t.update {
		errs = append(errs, c.Update(ctx, kinds.EndpointSlices, es))
	}
	for _, es := range t.remove {
		errs = append(errs, c.Delete(ctx, kinds.EndpointSlices, es))
	}
	return errors.Join(errs...)
}

// sliceChanged wakes the service of a slice of ours that somebody touched.
func sliceChanged(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	for _, obj := range []resource.Object{c.Old, c.New} {
		if obj == nil || obj.GetLabels()[discoveryv1.LabelManagedBy] != managedBy {
			continue
		}
		if svc := obj.GetLabels()[discoveryv1.LabelServiceName]; svc != "" {
			wake(obj.GetNamespace(), svc)
		}
	}
}

// zoneChanged wakes the services of the pods on a node that moved to another zone, and those that divide their endpoints by the
// zones' processors.
func zoneChanged(c client.Change, read resource.Reader, wake func(ns, name string)) {
	zone := func(o resource.Object) string {
		if o == nil {
			return ""
		}
		return o.GetLabels()[corev1.LabelTopologyZone]
	}
	if power(c.Old) != power(c.New) || zone(c.Old) != zone(c.New) {
		for obj := range read.Each(kinds.Services, "") {
			if automatic(obj.(*corev1.Service)) {
				wake(obj.GetNamespace(), obj.GetName())
			}
		}
	}
	if zone(c.Old) == zone(c.New) {
		return
	}
	for _, p := range resource.Where(read, kinds.Pods, "spec.nodeName", c.Object().GetName()) {
		backends.Concerned(client.Change{New: p}, read, wake)
	}
}

// power returns the processors that a node contributes to its zone's share.
func power(o resource.Object) int64 {
	n, ok := o.(*corev1.Node)
	if !ok || n == nil || !isReady(n) {
		return 0
	}
	return n.Status.Allocatable.Cpu().MilliValue()
}

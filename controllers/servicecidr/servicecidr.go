// Package servicecidr keeps address ranges of services as long as services use them.
//
//	reads   ServiceCIDR, IPAddress
//	writes  ServiceCIDR: status, the finalizer networking.k8s.io/service-cidr-finalizer
//	rule    a range is ready; one that is being deleted goes once every address in it lies in another range too
package servicecidr

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const finalizer = "networking.k8s.io/service-cidr-finalizer"

// Controller is the loop: wake on a range, on others that may stand in for it, and on addresses that are freed.
var Controller = &loop.Controller[*networkingv1.ServiceCIDR]{
	Name:      "service-cidr",
	For:       kinds.ServiceCIDRs,
	Wake:      []loop.Wake{{Kind: kinds.ServiceCIDRs, Keys: leaving}, {Kind: kinds.IPAddresses, Keys: freed}},
	Writes:    []resource.Kind{kinds.ServiceCIDRs},
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, r *networkingv1.ServiceCIDR) (time.Duration, error) {
	has := slices.Contains(r.Finalizers, finalizer)
	switch {
	case r.DeletionTimestamp == nil && !has:
		next := resource.Clone(r)
		next.Finalizers = append(next.Finalizers, finalizer)
		return 0, c.Update(ctx, kinds.ServiceCIDRs, next) // its change wakes it again
	case r.DeletionTimestamp == nil:
		return 0, setReady(ctx, c, r, metav1.ConditionTrue, "", "Kubernetes Service CIDR is ready")
	case !has:
		return 0, nil
	}
	held := needed(r, resource.List(c, kinds.ServiceCIDRs, ""), resource.List(c, kinds.IPAddresses, ""))
	if held != "" {
		c.Waiting("the address %s is in use", held)
		return 0, setReady(ctx, c, r, metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating,
			"There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
	}
	next := resource.Clone(r)
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	return 0, c.Update(ctx, kinds.ServiceCIDRs, next)
}

func setReady(ctx context.Context, c *loop.Ctx, r *networkingv1.ServiceCIDR, s metav1.ConditionStatus, reason, text string) error {
	next := resource.Clone(r)
	ready := metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: s, Reason: reason, Message: text}
	ready.LastTransitionTime = metav1.NewTime(c.Now())
	if !apimeta.SetStatusCondition(&next.Status.Conditions, ready) {
		return nil
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
		"metadata": map[string]any{"name": r.Name}, "status": map[string]any{"conditions": []metav1.Condition{ready}}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, kinds.ServiceCIDRs, r, client.Patch{Type: types.ApplyPatchType, Data: data, Sub: "status", Force: true,
		Manager: "service-cidr-controller"})
}

// needed is pure: an address in the range that no other range covers; "" when there is none.
func needed(r *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress) string {
	own := prefixes(r)
	var others []netip.Prefix
	for _, o := range all {
		if o.UID != r.UID && o.DeletionTimestamp == nil {
			others = append(others, prefixes(o)...)
		}
	}
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a.Name)
		if err != nil {
			continue
		}
		in := func(p netip.Prefix) bool { return p.Contains(ip) }
		if slices.ContainsFunc(own, in) && !slices.ContainsFunc(others, in) {
			return a.Name
		}
	}
	return ""
}

func prefixes(r *networkingv1.ServiceCIDR) (list []netip.Prefix) {
	for _, text := range r.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// leaving wakes the ranges that are being deleted: another one may cover their addresses now.
func leaving(_ client.Change, read resource.Reader, wake func(ns, name string)) {
	for obj := range read.Each(kinds.ServiceCIDRs, "") {
		if obj.GetDeletionTimestamp() != nil {
			wake("", obj.GetName())
		}
	}
}

func freed(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.New == nil {
		leaving(c, read, wake)
	}
}

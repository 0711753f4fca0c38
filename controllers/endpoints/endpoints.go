// Package endpoints publishes the pods behind every service in the old form, one object per service.
//
//	reads   Service, the Pods its selector matches, Endpoints
//	writes  Endpoints: create, update, delete
//	rule    the Endpoints of a service with a selector list its ready and its other pods, a thousand at most; a service
//	        that is gone has none
package endpoints

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/backends"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// rest bounds how often a service with many pods is looked at while they come and go.
const rest = 50 * time.Millisecond

// Controller is the loop: wake on a Service, on what endpoints tell of its Pods, and on its Endpoints.
var Controller = &loop.Controller[*corev1.Service]{
	Name: "endpoints",
	For:  kinds.Services,
	Wake: []loop.Wake{
		{Kind: kinds.Pods, Keys: backends.Concerned},
		{Kind: kinds.Endpoints, Keys: touched}},
	Writes:    []resource.Kind{kinds.Endpoints},
	Rest:      rest,
	Reconcile: reconcile,
	Gone:      gone,
	Find: func(read resource.Reader, wake func(ns, name string)) {
		for obj := range read.ByLabel(kinds.Endpoints, "", managedKey, managedBy) {
			wake(obj.GetNamespace(), obj.GetName())
		}
	},
}

func reconcile(ctx context.Context, c *loop.Ctx, s *corev1.Service) (time.Duration, error) {
	if !backends.Selects(s) || s.DeletionTimestamp != nil {
		return 0, nil
	}
	cur := resource.Get(c, kinds.Endpoints, s.Namespace, s.Name)
	list, ended := backends.Of(c, s)
	subsets, over := subsets(s, list)
	next := plan(s, cur, subsets, over, append(list, ended...))
	switch {
	case next == nil:
		return 0, nil
	case cur != nil:
		err := c.Update(ctx, kinds.Endpoints, next)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			c.Event(kinds.Endpoints, next, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %s/%s: %v",
				s.Namespace, s.Name, err)
		}
		return 0, err
	}
	_, err := c.Create(ctx, kinds.Endpoints, next)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	if err != nil {
		c.Event(kinds.Endpoints, next, corev1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %s/%s: %v",
			s.Namespace, s.Name, err)
	}
	return 0, err
}

// plan is pure: it returns the object as it should be, or nil when it is so. Pods that have ended are in the list, too:
// they tell when that was.
func plan(s *corev1.Service, cur *corev1.Endpoints, subsets []corev1.EndpointSubset, over bool, list []*corev1.Pod) *corev1.Endpoints {
	next := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	if cur != nil {
		next = resource.Clone(cur)
	}
	next.Labels, next.Subsets = labelsOf(s), subsets
	delete(next.Annotations, corev1.EndpointsOverCapacity)
	if over {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, corev1.EndpointsOverCapacity, "truncated")
	}
	if cur != nil && resource.Same(cur.Subsets, next.Subsets) && resource.Same(cur.Labels, next.Labels) &&
		cur.Annotations[corev1.EndpointsOverCapacity] == next.Annotations[corev1.EndpointsOverCapacity] {
		return nil
	}
	var changed []*corev1.Pod
	if cur != nil {
		was, is := places(cur.Subsets), places(subsets)
		for _, p := range list {
			now, before := is[string(p.UID)], was[string(p.UID)]
			if now != before && (now != 0 || before == 1 && !pods.Ready(p)) {
				changed = append(changed, p)
			}
		}
	}
	backends.Trigger(&next.ObjectMeta, s, cur == nil, changed)
	return next
}

// places tells of pods whether they are among the ready ones, 1, or the others, 2.
func places(subsets []corev1.EndpointSubset) map[string]int {
	at := map[string]int{}
	for i := range subsets {
		for n, list := range [][]corev1.EndpointAddress{subsets[i].Addresses, subsets[i].NotReadyAddresses} {
			for _, a := range list {
				if a.TargetRef != nil {
					at[string(a.TargetRef.UID)] = n + 1
				}
			}
		}
	}
	return at
}

// gone removes the endpoints of a service that is gone. They name no owner, so garbage collection leaves them.
func gone(ctx context.Context, c *loop.Ctx, key loop.Key) (time.Duration, error) {
	cur := resource.Get(c, kinds.Endpoints, key.Namespace, key.Name)
	if cur == nil || cur.DeletionTimestamp != nil {
		return 0, nil
	}
	return 0, c.Delete(ctx, kinds.Endpoints, cur)
}

// touched wakes the service of the same name, if there is one: other Endpoints are not ours.
func touched(c client.Change, read resource.Reader, wake func(ns, name string)) {
	obj := c.Object()
	if resource.Get(read, kinds.Services, obj.GetNamespace(), obj.GetName()) != nil {
		wake(obj.GetNamespace(), obj.GetName())
	}
}

// Package resourceclaim keeps claims for devices in step with the pods that use them.
//
//	reads   Pod, ResourceClaimTemplate, ResourceClaim
//	writes  ResourceClaim: create, delete, status, the finalizer that holds an allocation; Pod: status
//	rule    a pod that names a template has a claim made of it as long as it runs; a claim is reserved for pods that live;
//	        an allocation that nobody uses any more is given back
package resourceclaim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Claims is the loop that watches the use of claims: wake on a claim and on the pods that use it.
var Claims = &loop.Controller[*resourcev1.ResourceClaim]{
	Name:      "resource-claim",
	For:       kinds.ResourceClaims,
	Wake:      []loop.Wake{{Kind: kinds.Pods, Keys: used}},
	Writes:    []resource.Kind{kinds.ResourceClaims},
	Reconcile: reconcile,
}

// used wakes the claims of a pod.
func used(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	p := c.Object().(*corev1.Pod)
	if len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	for name := range resourceclaim.PodClaims(p) {
		wake(p.Namespace, name)
	}
}

func reconcile(ctx context.Context, c *loop.Ctx, claim *resourcev1.ResourceClaim) (time.Duration, error) {
	owner := ownerPod(c, claim) // observe
	pod := func(name string) *corev1.Pod { return resource.Get(c, kinds.Pods, claim.Namespace, name) }
	todo := use(claim, pod, waitingPods(c, claim)) // decide
	if !todo.same {                                // act
		next := resource.Clone(claim)
		next.Status.ReservedFor = todo.users
		if todo.free {
			next.Status.Allocation, next.Status.Devices = nil, nil
		}
		if err := c.UpdateStatus(ctx, kinds.ResourceClaims, next); err != nil {
			return 0, err
		}
		return 0, nil // woken by the write, with the new state
	}
	if held := slices.Contains(claim.Finalizers, resourcev1.Finalizer); held && claim.Status.Allocation == nil {
		next := resource.Clone(claim)
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
		if err := c.Update(ctx, kinds.ResourceClaims, next); err != nil {
			return 0, err
		}
		return 0, nil
	}
	if owner != nil && over(owner) && claim.DeletionTimestamp == nil && len(claim.Status.ReservedFor) == 0 {
		return 0, c.Delete(ctx, kinds.ResourceClaims, claim)
	}
	return 0, nil
}

// ownerPod is the pod that the claim was made for, or nil.
func ownerPod(read resource.Reader, claim *resourcev1.ResourceClaim) *corev1.Pod {
	ref := metav1.GetControllerOfNoCopy(claim)
	if ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" {
		return nil
	}
	if p := resource.Get(read, kinds.Pods, claim.Namespace, ref.Name); p != nil && p.UID == ref.UID {
		return p
	}
	return nil
}

// waitingPods are those that somebody gave a node without reserving the claim for them.
func waitingPods(read resource.Reader, claim *resourcev1.ResourceClaim) (list []*corev1.Pod) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, p := range resource.List(read, kinds.Pods, claim.Namespace) {
		if len(p.Spec.ResourceClaims) == 0 || p.Spec.NodeName == "" || over(p) || p.DeletionTimestamp != nil {
			continue
		}
		for name := range resourceclaim.PodClaims(p) {
			if name == claim.Name && !resourceclaim.IsReservedForPod(p, claim, false) {
				list = append(list, p)
			}
		}
	}
	return list
}

// A todo lists what a claim's status lacks.
type todo struct {
	users []resourcev1.ResourceClaimConsumerReference
	free  bool // the allocation is to be given back
	same  bool
}

// use compares for whom the claim is reserved with the pods that live. Users that are not pods are nobody's business here.
func use(claim *resourcev1.ResourceClaim, pod func(name string) *corev1.Pod, waiting []*corev1.Pod) (t todo) {
	for _, r := range claim.Status.ReservedFor {
		if r.APIGroup != "" || r.Resource != "pods" {
			t.users = append(t.users, r)
			continue
		}
		if p := pod(r.Name); p != nil && p.UID == r.UID && !over(p) {
			t.users = append(t.users, r)
		}
	}
	for _, p := range waiting {
		if len(t.users) < resourcev1.ResourceClaimReservedForMaxSize {
			t.users = append(t.users, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		}
	}
	left := len(claim.Status.ReservedFor) > 0 && len(t.users) == 0
	t.free = claim.Status.Allocation != nil && len(t.users) == 0 && (left || claim.DeletionTimestamp != nil)
	t.same = !t.free && slices.Equal(t.users, claim.Status.ReservedFor)
	return t
}

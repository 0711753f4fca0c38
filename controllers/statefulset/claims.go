package statefulset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// lost wakes the sets that a claim may have belonged to that is gone: a pod may wait for it. Names of templates and of sets may have
// hyphens, so every set is looked for whose name the claim's may hold.
var lost = loop.Wake{Kind: kinds.PersistentVolumeClaims, Keys: func(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.New != nil {
		return
	}
	ns, name := c.Old.GetNamespace(), c.Old.GetName()
	for end := strings.LastIndexByte(name, '-'); ; {
		at := strings.IndexByte(name, '-')
		if at < 0 || at >= end {
			return
		}
		name, end = name[at+1:], end-at-1
		if set := name[:end]; resource.Get(read, kinds.StatefulSets, ns, set) != nil {
			wake(ns, set)
		}
	}
}}

func (a *actor) claimName(t *corev1.PersistentVolumeClaim, n int) string {
	return fmt.Sprintf("%s-%s-%d", t.Name, a.s.Name, n)
}

// claims makes sure that an ordinal has its claims, and that none of them is about to go: a pod would only keep it from going.
func (a *actor) claims(ctx context.Context, c *loop.Ctx, n int) error {
	var errs []error
	for i := range a.s.Spec.VolumeClaimTemplates {
		t := &a.s.Spec.VolumeClaimTemplates[i]
		switch cur := a.claim(c, t, n); {
		case cur == nil:
			errs = append(errs, a.createClaim(ctx, c, t, n))
		case cur.DeletionTimestamp != nil:
			errs = append(errs, fmt.Errorf("pvc %s is being deleted", cur.Name))
		}
	}
	return utilerrors.NewAggregate(errs)
}

func (a *actor) claim(c *loop.Ctx, t *corev1.PersistentVolumeClaim, n int) *corev1.PersistentVolumeClaim {
	return resource.Get(c, kinds.PersistentVolumeClaims, a.s.Namespace, a.claimName(t, n))
}

// owned says that the claims of an ordinal belong to whom the retention policy says.
func (a *actor) owned(c *loop.Ctx, n int, p *corev1.Pod) bool {
	for i := range a.s.Spec.VolumeClaimTemplates {
		if cur := a.claim(c, &a.s.Spec.VolumeClaimTemplates[i], n); cur != nil {
			if refs, _ := a.owners(cur.OwnerReferences, a.wanted(n), p); !sameOwners(cur.OwnerReferences, refs) {
				return false
			}
		}
	}
	return true
}

func (a *actor) wanted(n int) bool { return n >= a.w.first && n < a.w.end }

// own gives the claims of an ordinal the owners that the retention policy says, and tells of those that somebody else has.
func (a *actor) own(ctx context.Context, c *loop.Ctx, n int, p *corev1.Pod) error {
	for i := range a.s.Spec.VolumeClaimTemplates {
		cur := a.claim(c, &a.s.Spec.VolumeClaimTemplates[i], n)
		if cur == nil {
			continue
		}
		refs, conflict := a.owners(cur.OwnerReferences, a.wanted(n), p)
		if conflict { // the word is upstream's
			a.failed(c, "ConflictingController", "PersistentVolumeClaim %s has a conflicting "+
				"OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", cur.Name)
		}
		if sameOwners(cur.OwnerReferences, refs) {
			continue
		}
		next := resource.Clone(cur)
		next.OwnerReferences = refs
		if err := c.Update(ctx, kinds.PersistentVolumeClaims, next); err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", cur.Name, err)
		}
	}
	return nil
}

// stale is the error that a claim belongs to an earlier pod of the name: the garbage collector is about to delete it.
func (a *actor) stale(c *loop.Ctx, n int, pod string) error {
	_, scaled := a.policy()
	for i := range a.s.Spec.VolumeClaimTemplates {
		cur := a.claim(c, &a.s.Spec.VolumeClaimTemplates[i], n)
		earlier := func(r metav1.OwnerReference) bool { return refers(r, kinds.Pods, pod) }
		if scaled && cur != nil && slices.ContainsFunc(cur.OwnerReferences, earlier) {
			return fmt.Errorf("pvc %s belongs to a pod that is gone: it is deleted first", cur.Name)
		}
	}
	return nil
}

func (a *actor) createClaim(ctx context.Context, c *loop.Ctx, t *corev1.PersistentVolumeClaim, n int) error {
	claim := resource.Clone(t)
	claim.Namespace, claim.Name = a.s.Namespace, a.claimName(t, n)
	claim.Labels = maps.Clone(claim.Labels)
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, a.s.Spec.Selector.MatchLabels)
	claim.OwnerReferences, _ = a.owners(nil, true, &corev1.Pod{})
	claim.Status = corev1.PersistentVolumeClaimStatus{}
	_, err := c.Create(ctx, kinds.PersistentVolumeClaims, claim)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		a.failed(c, "FailedCreate", "Create Claim %s for Pod %s-%d in StatefulSet %s failed error: %v", claim.Name, a.s.Name, n, a.s.Name, err)
		return fmt.Errorf("failed to create PVC %s: %w", claim.Name, err)
	}
	a.did(c, "SuccessfulCreate", "Create Claim %s Pod %s-%d in StatefulSet %s success", claim.Name, a.s.Name, n, a.s.Name)
	return nil
}

// policy says whether claims go with the set, and whether they go when their pod's place in the set does.
func (a *actor) policy() (deleted, scaled bool) {
	r := a.s.Spec.PersistentVolumeClaimRetentionPolicy
	if r == nil {
		return false, false
	}
	remove := appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return r.WhenDeleted == remove, r.WhenScaled == remove
}

// owners are the claim's owners under the retention policy (KEP-1847): the set, when claims go with it; the pod, when the claim goes with
// the pod's place in the set; neither, when it stays, or when somebody else controls it, a conflict. A claim whose owner is an earlier set
// or pod of the name is left as it is. A pod that is not there yet has no UID.
func (a *actor) owners(have []metav1.OwnerReference, kept bool, p *corev1.Pod) (refs []metav1.OwnerReference, conflict bool) {
	mine := func(r metav1.OwnerReference) bool {
		return refers(r, kinds.StatefulSets, a.s.Name) || refers(r, kinds.Pods, p.Name)
	}
	stale := func(r metav1.OwnerReference) bool { return mine(r) && r.UID != a.s.UID && r.UID != p.UID }
	deleted, scaled := a.policy()
	if slices.ContainsFunc(have, stale) {
		return have, deleted || scaled
	}
	refs = slices.DeleteFunc(slices.Clone(have), mine)
	switch {
	case (deleted || scaled) && slices.ContainsFunc(refs, controls):
		return refs, true
	case scaled && !kept:
		refs = append(refs, *metav1.NewControllerRef(p, kinds.Pods.GVK))
	case deleted:
		refs = append(refs, *metav1.NewControllerRef(a.s, kinds.StatefulSets.GVK))
	}
	return refs, false
}

// refers says that an owner is of the kind and name, now or once.
func refers(r metav1.OwnerReference, k resource.Kind, name string) bool {
	return r.Name == name && r.Kind == k.Info().GVK.Kind && r.APIVersion == k.Info().GVK.GroupVersion().String()
}

func controls(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }

// sameOwners says that two lists have the same owners, in whatever order, and the same of them control.
func sameOwners(a, b []metav1.OwnerReference) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x metav1.OwnerReference) bool {
		return !slices.ContainsFunc(b, func(y metav1.OwnerReference) bool { return x.UID == y.UID && controls(x) == controls(y) })
	})
}

package statefulset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/controllers/internal/revisions"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// An actor makes the pods and claims of one set.
type actor struct {
	s       *appsv1.StatefulSet
	w       *world
	history []*appsv1.ControllerRevision
}

// act brings the claims in line, then starts and stops pods: a pod may only go when its claims are known to go with it, or to
// stay.
func act(ctx context.Context, c *loop.Ctx, a *actor, t todo) error {
	var errs []error
	if t.note != "" {
		c.Waiting("%s is not available", t.note)
	}
	for _, n := range slices.Sorted(maps.Keys(a.w.pods)) {
		errs = append(errs, a.claims(ctx, c, n, a.w.pods[n]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, n := range t.identify {
		errs = append(errs, a.identify(ctx, c, n))
	}
	for _, n := range t.create {
		errs = append(errs, a.create(ctx, c, n))
	}
	for _, p := range t.remove {
		errs = append(errs, a.remove(ctx, c, p))
	}
	return errors.Join(errs...)
}

func (a *actor) create(ctx context.Context, c *loop.Ctx, n int) error {
	p, err := a.newPod(n)
	if err != nil {
		return err
	}
	if err = errors.Join(a.going(c, n), a.claims(ctx, c, n, nil)); err == nil {
		_, err = c.Create(ctx, kinds.Pods, p)
	}
	switch {
	case err == nil:
		a.did(c, "SuccessfulCreate", "Create Pod %s in StatefulSet %s successful", p.Name, a.s.Name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsAlreadyExists(err): // somebody else's: nothing to tell, the name may come free
	default:
		a.failed(c, "FailedCreate", "Create Pod %s in StatefulSet %s failed error: %v", p.Name, a.s.Name, err)
	}
	return err
}

func (a *actor) did(c *loop.Ctx, reason, format string, args ...any) {
	c.Event(kinds.StatefulSets, a.s, corev1.EventTypeNormal, reason, format, args...)
}

func (a *actor) failed(c *loop.Ctx, reason, format string, args ...any) {
	c.Event(kinds.StatefulSets, a.s, corev1.EventTypeWarning, reason, format, args...)
}

func (a *actor) remove(ctx context.Context, c *loop.Ctx, p *corev1.Pod) error {
	if err := c.Delete(ctx, kinds.Pods, p); err != nil {
		a.failed(c, "FailedDelete", "Delete Pod %s in StatefulSet %s failed error: %v", p.Name, a.s.Name, err)
		return err
	}
	a.did(c, "SuccessfulDelete", "Delete Pod %s in StatefulSet %s successful", p.Name, a.s.Name)
	return nil
}

// identify gives a pod back the labels by which it is known, if it lost them or was adopted without.
func (a *actor) identify(ctx context.Context, c *loop.Ctx, n int) error {
	next := resource.Clone(a.w.pods[n])
	name(next, n)
	if err := c.Update(ctx, kinds.Pods, next); err != nil {
		a.failed(c, "FailedUpdate", "Update Pod %s in StatefulSet %s failed error: %v", next.Name, a.s.Name, err)
		return err
	}
	a.did(c, "SuccessfulUpdate", "Update Pod %s in StatefulSet %s successful", next.Name, a.s.Name)
	return nil
}

// name labels the pod of an ordinal.
func name(p *corev1.Pod, n int) {
	p.Labels = maps.Clone(p.Labels)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.StatefulSetPodNameLabel], p.Labels[appsv1.PodIndexLabel] = p.Name, strconv.Itoa(n)
}

// newPod makes the pod of an ordinal from the template of its revision.
func (a *actor) newPod(n int) (*corev1.Pod, error) {
	rev := a.w.revisionOf(n)
	template := &a.s.Spec.Template
	if at := slices.IndexFunc(a.history, func(r *appsv1.ControllerRevision) bool { return r.Name == rev }); at >= 0 && rev != a.w.update {
		var err error
		if template, err = revisions.Template(a.history[at]); err != nil {
			return nil, err
		}
	}
	p := pods.FromTemplate(kinds.StatefulSets, a.s, template)
	p.Name = a.s.Name + "-" + strconv.Itoa(n)
	name(p, n)
	p.Labels[revisions.Hash] = rev
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, a.s.Spec.ServiceName
	var volumes []corev1.Volume
	for i := range a.s.Spec.VolumeClaimTemplates {
		t := &a.s.Spec.VolumeClaimTemplates[i]
		volumes = append(volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: a.claimName(t, n)}}})
	}
	for _, v := range p.Spec.Volumes {
		if !slices.ContainsFunc(volumes, func(o corev1.Volume) bool { return o.Name == v.Name }) {
			volumes = append(volumes, v)
		}
	}
	p.Spec.Volumes = volumes
	return p, nil
}

func (a *actor) claimName(t *corev1.PersistentVolumeClaim, n int) string {
	return fmt.Sprintf("%s-%s-%d", t.Name, a.s.Name, n)
}

// claims makes sure that the claims of an ordinal exist and belong to whom the retention policy says.
func (a *actor) claims(ctx context.Context, c *loop.Ctx, n int, p *corev1.Pod) error {
	var errs []error
	for i := range a.s.Spec.VolumeClaimTemplates {
		t := &a.s.Spec.VolumeClaimTemplates[i]
		cur := resource.Get(c, kinds.PersistentVolumeClaims, a.s.Namespace, a.claimName(t, n))
		kept := n >= a.w.first && n < a.w.end
		switch {
		case cur == nil && kept:
			errs = append(errs, a.createClaim(ctx, c, t, n))
		case cur == nil || cur.DeletionTimestamp != nil:
		default:
			refs := a.owners(cur.OwnerReferences, kept, p)
			if sameOwners(cur.OwnerReferences, refs) {
				continue
			}
			if slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return a.foreign(r, p) }) {
				a.failed(c, "ConflictingController", "PersistentVolumeClaim %s has a conflicting "+
					"OwnerReference that acts as a managing controller, the retention policy is ignored for this claim", cur.Name)
			}
			next := resource.Clone(cur)
			next.OwnerReferences = refs
			errs = append(errs, c.Update(ctx, kinds.PersistentVolumeClaims, next))
		}
	}
	return errors.Join(errs...)
}

// going is the error that a claim of the ordinal is being deleted: a pod would only keep it from going.
func (a *actor) going(c *loop.Ctx, n int) error {
	var errs []error
	for i := range a.s.Spec.VolumeClaimTemplates {
		claim := a.claimName(&a.s.Spec.VolumeClaimTemplates[i], n)
		if cur := resource.Get(c, kinds.PersistentVolumeClaims, a.s.Namespace, claim); cur != nil && cur.DeletionTimestamp != nil {
			errs = append(errs, fmt.Errorf("pvc %s is being deleted", claim))
		}
	}
	return errors.Join(errs...)
}

func (a *actor) createClaim(ctx context.Context, c *loop.Ctx, t *corev1.PersistentVolumeClaim, n int) error {
	claim := resource.Clone(t)
	claim.Namespace, claim.Name = a.s.Namespace, a.claimName(t, n)
	claim.Labels = maps.Clone(claim.Labels)
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	maps.Copy(claim.Labels, a.s.Spec.Selector.MatchLabels)
	claim.OwnerReferences = a.owners(nil, true, nil)
	claim.Status = corev1.PersistentVolumeClaimStatus{}
	_, err := c.Create(ctx, kinds.PersistentVolumeClaims, claim)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		a.failed(c, "FailedCreate", "Create Claim %s for Pod %s-%d in StatefulSet %s failed error: %v", claim.Name, a.s.Name, n, a.s.Name, err)
		return err
	}
	a.did(c, "SuccessfulCreate", "Create Claim %s Pod %s-%d in StatefulSet %s success", claim.Name, a.s.Name, n, a.s.Name)
	return nil
}

// owners are the claim's owners under the retention policy: the set, when claims go with it; the pod, when the claim goes
// with the pod's place in the set; nobody, when it stays, or when somebody else controls it.
func (a *actor) owners(have []metav1.OwnerReference, kept bool, p *corev1.Pod) []metav1.OwnerReference {
	bySet, byPod := false, false
	if r := a.s.Spec.PersistentVolumeClaimRetentionPolicy; r != nil {
		scaled := r.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && !kept
		bySet = r.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType && !scaled
		byPod = scaled && p != nil
	}
	refs := slices.DeleteFunc(slices.Clone(have), func(r metav1.OwnerReference) bool {
		return r.UID == a.s.UID || r.Kind == "Pod" && (p != nil && r.UID == p.UID || kept)
	})
	if slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return a.foreign(r, p) }) {
		return refs
	}
	if bySet {
		refs = append(refs, *metav1.NewControllerRef(a.s, kinds.StatefulSets.GVK))
	}
	if byPod {
		refs = append(refs, *metav1.NewControllerRef(p, kinds.Pods.GVK))
	}
	return refs
}

// foreign says that the owner is a controller and neither the set nor a pod: it decides alone when the claim goes.
func (a *actor) foreign(r metav1.OwnerReference, p *corev1.Pod) bool {
	return r.Controller != nil && *r.Controller && r.UID != a.s.UID && (p == nil || r.UID != p.UID) && r.Kind != "Pod"
}

func sameOwners(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.OwnerReference) bool { return x.UID == y.UID })
}

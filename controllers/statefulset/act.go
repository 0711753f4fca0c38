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
	if err := a.claims(ctx, c, n, nil); err != nil {
		return err
	}
	_, err = c.Create(ctx, kinds.Pods, p)
	switch {
	case err == nil:
		c.Event(kinds.StatefulSets, a.s, corev1.EventTypeNormal, "SuccessfulCreate", "create Pod %s in StatefulSet %s successful", p.Name, a.s.Name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	default:
		c.Event(kinds.StatefulSets, a.s, corev1.EventTypeWarning, "FailedCreate", "create Pod %s in StatefulSet %s failed error: %v", p.Name, a.s.Name, err)
	}
	return err
}

func (a *actor) remove(ctx context.Context, c *loop.Ctx, p *corev1.Pod) error {
	switch p.Status.Phase {
	case corev1.PodFailed:
		c.Event(kinds.StatefulSets, a.s, corev1.EventTypeWarning, "RecreatingFailedPod", "StatefulSet %s/%s is recreating failed Pod %s", a.s.Namespace, a.s.Name, p.Name)
	case corev1.PodSucceeded:
		c.Event(kinds.StatefulSets, a.s, corev1.EventTypeNormal, "RecreatingTerminatedPod", "StatefulSet %s/%s is recreating terminated Pod %s", a.s.Namespace, a.s.Name, p.Name)
	}
	if err := c.Delete(ctx, kinds.Pods, p); err != nil {
		c.Event(kinds.StatefulSets, a.s, corev1.EventTypeWarning, "FailedDelete", "delete Pod %s in StatefulSet %s failed error: %v", p.Name, a.s.Name, err)
		return err
	}
	c.Event(kinds.StatefulSets, a.s, corev1.EventTypeNormal, "SuccessfulDelete", "delete Pod %s in StatefulSet %s successful", p.Name, a.s.Name)
	return nil
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
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[appsv1.StatefulSetPodNameLabel], p.Labels[appsv1.PodIndexLabel], p.Labels[revisions.Hash] = p.Name, strconv.Itoa(n), rev
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
			if refs := a.owners(cur.OwnerReferences, kept, p); !sameOwners(cur.OwnerReferences, refs) {
				next := resource.Clone(cur)
				next.OwnerReferences = refs
				errs = append(errs, c.Update(ctx, kinds.PersistentVolumeClaims, next))
			}
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
		c.Event(kinds.StatefulSets, a.s, corev1.EventTypeWarning, "FailedCreate", "create Claim %s for Pod %s-%d in StatefulSet %s failed error: %v", claim.Name, a.s.Name, n, a.s.Name, err)
		return err
	}
	c.Event(kinds.StatefulSets, a.s, corev1.EventTypeNormal, "SuccessfulCreate", "create Claim %s Pod %s-%d in StatefulSet %s success", claim.Name, a.s.Name, n, a.s.Name)
	return nil
}

// owners are the claim's owners under the retention policy: the set, when claims go with it; the pod, when the claim goes
// with the pod's place in the set; nobody, when it stays.
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
	if bySet {
		refs = append(refs, *metav1.NewControllerRef(a.s, kinds.StatefulSets.GVK))
	}
	if byPod {
		refs = append(refs, *metav1.NewControllerRef(p, kinds.Pods.GVK))
	}
	return refs
}

func sameOwners(a, b []metav1.OwnerReference) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.OwnerReference) bool { return x.UID == y.UID })
}

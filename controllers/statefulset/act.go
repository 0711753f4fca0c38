package statefulset

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

// act starts and stops pods: one beyond the wanted may only go when its claims are known to go with it, or to stay. Out of order the
// replicas come in growing batches, so that what is refused is not asked for by each.
func act(ctx context.Context, c *loop.Ctx, a *actor, t todo) error {
	if t.note != "" {
		c.Waiting("%s is not available", t.note)
	}
	for size := 1; len(t.replicas) > 0; size *= 2 {
		if a.w.inOrder() {
			size = 1
		}
		size = min(size, len(t.replicas))
		var errs []error
		for _, one := range t.replicas[:size] {
			errs = append(errs, a.replica(ctx, c, one))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		t.replicas = t.replicas[size:]
	}
	for _, n := range slices.Backward(t.beyond) {
		if err := a.own(ctx, c, n, a.w.pods[n]); err != nil {
			return err
		}
	}
	var errs []error
	for _, p := range t.remove {
		errs = append(errs, a.remove(ctx, c, p))
	}
	return errors.Join(errs...)
}

// replica does what there is to do about one pod that should be. A pod that waits to be placed may wait for its claims.
func (a *actor) replica(ctx context.Context, c *loop.Ctx, one step) error {
	p := a.w.pods[one.n]
	switch one.do {
	case create:
		return a.create(ctx, c, one.n)
	case replace:
		return a.remove(ctx, c, p)
	}
	if p.Status.Phase == corev1.PodPending {
		if err := a.claims(ctx, c, one.n); err != nil {
			return err
		}
		if err := a.own(ctx, c, one.n, p); err != nil {
			return a.notUpdated(c, p, err)
		}
	}
	if one.do == settle {
		return a.settle(ctx, c, one.n)
	}
	return nil
}

func (a *actor) create(ctx context.Context, c *loop.Ctx, n int) error {
	p, err := a.newPod(n)
	if err != nil {
		return err
	}
	if err := a.stale(c, n, p.Name); err != nil {
		return err
	}
	if err = a.claims(ctx, c, n); err == nil {
		_, err = c.Create(ctx, kinds.Pods, p)
		if !apierrors.IsAlreadyExists(err) {
			if err := a.own(ctx, c, n, p); err != nil {
				return a.notUpdated(c, p, err)
			}
		}
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

// settle gives a pod back the labels by which it is known and its volumes, if it lost them or was adopted without, and its claims their
// owners.
func (a *actor) settle(ctx context.Context, c *loop.Ctx, n int) error {
	p := a.w.pods[n]
	named, mounted, owned := p.Labels[appsv1.StatefulSetPodNameLabel] == p.Name, a.mounted(p, n), a.owned(c, n, p)
	if named && mounted && owned {
		return nil
	}
	next := resource.Clone(p)
	if !named {
		name(next, n)
	}
	if !mounted {
		next.Spec.Volumes = a.volumes(next, n)
		if err := a.claims(ctx, c, n); err != nil {
			return a.notUpdated(c, p, err)
		}
	}
	if !owned {
		if err := a.own(ctx, c, n, p); err != nil {
			return a.notUpdated(c, p, err)
		}
	}
	if !named || !mounted {
		if err := c.Update(ctx, kinds.Pods, next); err != nil {
			return a.notUpdated(c, p, err)
		}
	}
	a.did(c, "SuccessfulUpdate", "Update Pod %s in StatefulSet %s successful", p.Name, a.s.Name)
	return nil
}

// notUpdated tells why a pod could not be brought in line, unless somebody was faster.
func (a *actor) notUpdated(c *loop.Ctx, p *corev1.Pod, err error) error {
	if !apierrors.IsConflict(err) {
		a.failed(c, "FailedUpdate", "Update Pod %s in StatefulSet %s failed error: %v", p.Name, a.s.Name, err)
	}
	return err
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
	p.Spec.Volumes = a.volumes(p, n)
	return p, nil
}

// volumes are those of a pod, with the claims of its ordinal.
func (a *actor) volumes(p *corev1.Pod, n int) []corev1.Volume {
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
	return volumes
}

// mounted says that a pod has the claims of its ordinal.
func (a *actor) mounted(p *corev1.Pod, n int) bool {
	for i := range a.s.Spec.VolumeClaimTemplates {
		t := &a.s.Spec.VolumeClaimTemplates[i]
		if !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == t.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == a.claimName(t, n)
		}) {
			return false
		}
	}
	return true
}

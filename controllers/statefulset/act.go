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
	if err = errors.Join(a.going(c, n, p.Name), a.claims(ctx, c, n, p)); err == nil {
		_, err = c.Create(ctx, kinds.Pods, p)
	}
	switch {
	case err == nil:
		a.did(c, "SuccessfulCreate", "Create Pod %s in StatefulSet %s successful", p.Name, a.s.Name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsAlreadyExists(err): // somebody else's: nothing to tell, the name may come free
	case errors.Is(err, errStale):
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

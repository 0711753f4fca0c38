// Package pvcprotection keeps claims as long as a pod uses them, and tells since when none does.
//
//	reads   PersistentVolumeClaim, Pod
//	writes  PersistentVolumeClaim: the finalizer kubernetes.io/pvc-protection, status with the condition Unused
//	rule    a claim that is being deleted loses the finalizer once no pod that has a node uses it; others have it, and say whether a pod
//	        that has not ended uses them
package pvcprotection

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

const finalizer = "kubernetes.io/pvc-protection"

// tells is the feature by which a claim says since when it is not used.
const tells = "PersistentVolumeClaimUnusedSinceTime"

// Controller returns the loop in a cluster with such features: wake on a claim, and on pods that may have come to it or let go of it.
func Controller(on *features.Set) *loop.Controller[*corev1.PersistentVolumeClaim] {
	p := &protector{told: on.On(tells), bound: on.AtLeast(37)}
	return &loop.Controller[*corev1.PersistentVolumeClaim]{
		Name: "pvc-protection",
		For:  kinds.PersistentVolumeClaims,
		Skip: func(c *corev1.PersistentVolumeClaim) bool {
			held := slices.Contains(c.Finalizers, finalizer)
			return (c.DeletionTimestamp != nil) != held && !(p.told && c.DeletionTimestamp == nil)
		},
		Wake:      []loop.Wake{{Kind: kinds.Pods, Keys: p.concerned}},
		Find:      p.find,
		Writes:    []resource.Kind{kinds.PersistentVolumeClaims},
		Reconcile: p.reconcile,
	}
}

// protector is the loop at work.
type protector struct {
	told  bool
	bound bool // only bound claims say it
	index index
}

func (t *protector) reconcile(ctx context.Context, c *loop.Ctx, claim *corev1.PersistentVolumeClaim) (time.Duration, error) {
	if t.told && claim.DeletionTimestamp == nil && (claim.Status.Phase == corev1.ClaimBound || !t.bound) {
		used := slices.ContainsFunc(users(t.index.of(c, claim), claim), func(p *corev1.Pod) bool { return !core.Terminal(p) })
		if next := judged(claim, used, metav1.Time{Time: c.Now().Truncate(time.Second)}); next != nil {
			return 0, c.UpdateStatus(ctx, kinds.PersistentVolumeClaims, next) // which wakes it again
		}
	}
	next := resource.Clone(claim)
	held := slices.Contains(claim.Finalizers, finalizer)
	switch {
	case held == (claim.DeletionTimestamp == nil):
		return 0, nil
	case !held:
		next.Finalizers = append(next.Finalizers, finalizer)
	default:
		pods := users(resource.List(c, kinds.Pods, claim.Namespace), claim)
		if i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return holds(p, claim) }); i >= 0 {
			c.Waiting("pod %s uses it", pods[i].Name)
			return 0, nil
		}
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	}
	return 0, c.Update(ctx, kinds.PersistentVolumeClaims, next)
}

// concerned wakes the claims of a pod that came to them or that went, started late or ended.
func (t *protector) concerned(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	p := c.Object().(*corev1.Pod)
	if t.told {
		t.index.note(c)
	}
	old, ok := c.Old.(*corev1.Pod)
	if ok && c.New != nil && old.UID == p.UID && core.Terminal(old) == core.Terminal(p) && shut(old) == shut(p) {
		return
	}
	if !t.told && c.New != nil && !core.Terminal(p) && !shut(p) && p.Spec.NodeName != "" {
		return
	}
	for _, obj := range []resource.Object{c.Old, c.New} {
		if pod, ok := obj.(*corev1.Pod); ok {
			for _, name := range core.ClaimNames(pod) {
				wake(pod.Namespace, name)
			}
		}
	}
}

// find begins the index anew.
func (t *protector) find(read resource.Reader, _ func(ns, name string)) {
	if t.told {
		t.index.rebuild(read)
	}
}

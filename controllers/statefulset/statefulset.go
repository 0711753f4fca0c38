// Package statefulset keeps pods that have names of their own: web-0, web-1 and so on, each with its claims.
//
//	reads   StatefulSet, the Pods and ControllerRevisions it owns, PersistentVolumeClaim
//	writes  Pod: create, delete; PersistentVolumeClaim: create, owners; ControllerRevision; StatefulSet: status
//	rule    every ordinal has its pod and claims; in order, each starts after the one before it is available and goes before
//	        it; an update goes from the highest ordinal down to the partition
package statefulset

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/controllers/internal/ownership"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/controllers/internal/revisions"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller returns the loop in a cluster with such features: wake on a StatefulSet, its Pods and revisions, on Pods that it may adopt,
// and on claims that are gone.
func Controller(on *features.Set) *loop.Controller[*appsv1.StatefulSet] {
	return &loop.Controller[*appsv1.StatefulSet]{
		Name:      "statefulset",
		For:       kinds.StatefulSets,
		Wake:      []loop.Wake{loop.Owner(kinds.Pods), loop.Each(kinds.Pods, adopters), loop.Owner(kinds.ControllerRevisions), lost},
		Writes:    []resource.Kind{kinds.Pods, kinds.PersistentVolumeClaims, kinds.ControllerRevisions, kinds.StatefulSets},
		Reconcile: keeper{counts: on.On("MaxUnavailableStatefulSet")}.reconcile,
	}
}

// keeper is the loop at work. It counts all pods that are not available against the bound of an update if it counts.
type keeper struct{ counts bool }

func (k keeper) reconcile(ctx context.Context, c *loop.Ctx, s *appsv1.StatefulSet) (time.Duration, error) {
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Selector)
	if err != nil || selector.Empty() {
		return 0, nil // nothing that it could own
	}
	owned, err := pods.Claim(ctx, c, ownership.Owner[*corev1.Pod]{Object: s, Kind: kinds.StatefulSets, Selector: selector, // observe
		Member: func(p *corev1.Pod) bool { return ordinal(s, p) >= 0 }})
	if err != nil {
		return 0, err
	}
	collisions := new(int32)
	if n := s.Status.CollisionCount; n != nil {
		*collisions = *n
	}
	owner := revisions.Owner{Object: s, Kind: kinds.StatefulSets, Selector: selector, Template: &s.Spec.Template,
		Collisions: collisions, Label: "controller.kubernetes.io/hash"}
	history, err := revisions.List(ctx, c, owner)
	if err != nil {
		return 0, err
	}
	update, err := revisions.Current(ctx, c, owner, history)
	if errors.Is(err, revisions.ErrCollision) {
		*collisions++
		return loop.Now, writeStatus(ctx, c, s, s.Status, collisions)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	w := observe(s, owned, update.Name, c.Now())
	w.counts = k.counts
	if !slices.ContainsFunc(history, func(r *appsv1.ControllerRevision) bool { return r.Name == w.current }) {
		w.current = w.update // the former template is lost: nothing can be made from it
	}
	var todo todo
	if s.DeletionTimestamp == nil {
		todo = plan(w)                                                                // decide
		err = act(ctx, c, &actor{s: s, w: w, history: append(history, update)}, todo) // act
	}
	err = errors.Join(err, writeStatus(ctx, c, s, w.status(), collisions))
	return todo.again, errors.Join(err, trim(ctx, c, w, history))
}

func writeStatus(ctx context.Context, c *loop.Ctx, s *appsv1.StatefulSet, st appsv1.StatefulSetStatus, collisions *int32) error {
	st.CollisionCount = collisions
	if resource.Same(s.Status, st) {
		return nil
	}
	next := resource.Clone(s)
	next.Status = st
	return c.UpdateStatus(ctx, kinds.StatefulSets, next)
}

// trim forgets old revisions that no pod has.
func trim(ctx context.Context, c *loop.Ctx, w *world, history []*appsv1.ControllerRevision) error {
	limit := int32(10)
	if l := w.set.Spec.RevisionHistoryLimit; l != nil {
		limit = *l
	}
	used := map[string]bool{w.current: true, w.update: true}
	for _, p := range w.pods {
		used[p.Labels[revisions.Hash]] = true
	}
	return revisions.Trim(ctx, c, history, limit, func(r *appsv1.ControllerRevision) bool { return used[r.Name] })
}

// ordinal is the pod's number in the set, -1 when its name is not one that the set gives.
func ordinal(s *appsv1.StatefulSet, p *corev1.Pod) int {
	text, ok := strings.CutPrefix(p.Name, s.Name+"-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != text {
		return -1
	}
	return n
}

// adopters wakes the sets whose selector matches a pod that nobody controls.
func adopters(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	at := strings.LastIndexByte(obj.GetName(), '-')
	if at < 0 || metav1.GetControllerOfNoCopy(obj) != nil {
		return
	}
	s := resource.Get(read, kinds.StatefulSets, obj.GetNamespace(), obj.GetName()[:at])
	if s == nil {
		return
	}
	if sel, err := metav1.LabelSelectorAsSelector(s.Spec.Selector); err == nil && !sel.Empty() && sel.Matches(labels.Set(obj.GetLabels())) {
		wake(s.Namespace, s.Name)
	}
}

// Package disruption counts how many pods of a PodDisruptionBudget may be evicted now.
//
//	reads   PodDisruptionBudget, the Pods it selects; the scale of what controls them: Deployment, ReplicaSet, StatefulSet,
//	        ReplicationController, others by their scale
//	writes  PodDisruptionBudget: status; Pod: status with a mark of disruption that is out of date
//	rule    status.disruptionsAllowed is the number of healthy pods beyond those that must stay
package disruption

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// confirm is the time that an eviction that was allowed may take to show as a deleted pod.
const confirm = 2 * time.Minute

// Controller is the loop: wake on a budget, on its Pods, and on the scale of what controls pods.
var Controller = &loop.Controller[*policyv1.PodDisruptionBudget]{
	Name: "disruption",
	For:  kinds.PodDisruptionBudgets,
	Wake: []loop.Wake{{Kind: kinds.Pods, Keys: podChanged},
		{Kind: kinds.ReplicaSets, Keys: scaled}, {Kind: kinds.Deployments, Keys: scaled},
		{Kind: kinds.StatefulSets, Keys: scaled}, {Kind: kinds.ReplicationControllers, Keys: scaled}},
	Writes:    []resource.Kind{kinds.PodDisruptionBudgets},
	Rest:      20 * time.Millisecond,
	Reconcile: reconcile,
}

func reconcile(ctx context.Context, c *loop.Ctx, b *policyv1.PodDisruptionBudget) (time.Duration, error) {
	if b.DeletionTimestamp != nil {
		return 0, nil
	}
	list, err := selected(c, b) // observe
	if err != nil {
		return 0, nil // validation refuses such a selector
	}
	if len(list) == 0 {
		c.Event(kinds.PodDisruptionBudgets, b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, err := expect(c, c.Client().Kinds(), b, list)
	if err != nil {
		c.Event(kinds.PodDisruptionBudgets, b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: %v", err)
	}
	if expected.unmanaged {
		c.Event(kinds.PodDisruptionBudgets, b, corev1.EventTypeWarning, "UnmanagedPods",
			"Pods selected by this PodDisruptionBudget (selector: %v) were found "+
				"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
				"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.", b.Spec.Selector)
	}
	for _, p := range list {
		if at, told := b.Status.DisruptedPods[p.Name]; told && p.DeletionTimestamp == nil && at.Add(confirm).Before(c.Now()) {
			c.Event(kinds.Pods, p, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't",
				b.Namespace, b.Name)
		}
	}
	st, again := plan(b, list, expected, err, c.Now()) // decide
	if resource.Same(b.Status, st) {
		return again, nil
	}
	next := resource.Clone(b)
	next.Status = st
	return again, c.UpdateStatus(ctx, kinds.PodDisruptionBudgets, next) // act
}

func selected(read resource.Reader, b *policyv1.PodDisruptionBudget) (list []*corev1.Pod, err error) {
	sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || b.Spec.Selector == nil {
		return nil, err
	}
	for _, p := range resource.List(read, kinds.Pods, b.Namespace) {
		if sel.Matches(labels.Set(p.Labels)) {
			list = append(list, p)
		}
	}
	return list, nil
}

// A count has the pods that there should be, and those of them that must be healthy. Pods that nobody controls are not in it.
type count struct {
	expected, desired int32
	unmanaged         bool // there are such pods
}

// expect works out the count. A number is taken as it is; a percentage needs the wanted scale of what controls the pods.
func expect(read resource.Reader, set *resource.Set, b *policyv1.PodDisruptionBudget, list []*corev1.Pod) (n count, err error) {
	limit := b.Spec.MaxUnavailable
	if limit == nil {
		limit = b.Spec.MinAvailable
	}
	if limit == nil {
		return count{}, nil // none is expected, so none may be disrupted
	}
	n.expected = int32(len(list))
	if b.Spec.MaxUnavailable != nil || limit.Type == intstr.String {
		if n.expected, n.unmanaged, err = wantedScale(read, set, list); err != nil {
			return n, err
		}
	}
	v, err := intstr.GetScaledValueFromIntOrPercent(limit, int(n.expected), true)
	if err != nil {
		return n, err
	}
	n.desired = int32(v)
	if b.Spec.MaxUnavailable != nil {
		n.desired = max(0, n.expected-int32(v))
	}
	return n, nil
}

// wantedScale sums up the scale of everything that controls one of the pods.
func wantedScale(read resource.Reader, set *resource.Set, list []*corev1.Pod) (total int32, unmanaged bool, err error) {
	seen := map[types.UID]bool{}
	for _, p := range list {
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil {
			unmanaged = true
			continue
		}
		if seen[ref.UID] {
			continue
		}
		seen[ref.UID] = true
		k, obj := lookup(read, set, p.Namespace, ref)
		if k == nil {
			return 0, unmanaged, fmt.Errorf("no matches for kind %q in version %q", ref.Kind, ref.APIVersion)
		}
		if obj == nil {
			return 0, unmanaged, fmt.Errorf("found no controllers for pod %q", p.Name)
		}
		// A ReplicaSet stands for its Deployment; what else scales a set does not count.
		if up := metav1.GetControllerOfNoCopy(obj); up != nil && k == kinds.ReplicaSets && up.Kind == kinds.Deployments.Info().GVK.Kind {
			if uk, uobj := lookup(read, set, p.Namespace, up); uobj != nil && uk == kinds.Deployments {
				if seen[up.UID] {
					continue
				}
				seen[up.UID], k, obj = true, uk, uobj
			}
		}
		s, ok := resource.ScaleOf(k, obj)
		if !ok {
			return 0, unmanaged, fmt.Errorf("%s does not implement the scale subresource", k.Info().GR())
		}
		total += s.Replicas
	}
	return total, unmanaged, nil
}

func lookup(read resource.Reader, set *resource.Set, ns string, ref *metav1.OwnerReference) (resource.Kind, resource.Object) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, nil
	}
	if gv.Group == "extensions" { // where they once were
		gv.Group = "apps"
	}
	k, ok := set.GroupKind(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if !ok {
		return nil, nil
	}
	obj := read.Lookup(k, ns, ref.Name)
	if obj == nil || obj.GetUID() != ref.UID {
		return k, nil
	}
	return k, obj
}

// plan is pure: it returns the status, and when an eviction that was not confirmed runs out.
func plan(b *policyv1.PodDisruptionBudget, list []*corev1.Pod, n count, failed error,
	now time.Time) (st policyv1.PodDisruptionBudgetStatus, again time.Duration) {
	st = *b.Status.DeepCopy()
	if failed != nil { // what was observed is as old as the counts
		st.DisruptionsAllowed = 0
		setAllowed(&st, metav1.ConditionFalse, policyv1.SyncFailedReason, failed.Error(), now)
		return st, 0
	}
	st.ObservedGeneration = b.Generation
	healthy := int32(0)
	byName := map[string]*corev1.Pod{}
	for _, p := range list {
		byName[p.Name] = p
	}
	st.DisruptedPods = maps.Clone(b.Status.DisruptedPods)
	for name, at := range st.DisruptedPods {
		left := at.Add(confirm).Sub(now)
		if p := byName[name]; p == nil || p.DeletionTimestamp != nil || left <= 0 {
			delete(st.DisruptedPods, name)
		} else if again == 0 || left < again {
			again = left
		}
	}
	for _, p := range list {
		if _, evicted := st.DisruptedPods[p.Name]; !evicted && p.DeletionTimestamp == nil && pods.Ready(p) {
			healthy++
		}
	}
	st.CurrentHealthy, st.DesiredHealthy, st.ExpectedPods = healthy, n.desired, n.expected
	st.DisruptionsAllowed = max(0, healthy-n.desired)
	if n.expected <= 0 {
		st.DisruptionsAllowed = 0
	}
	if st.DisruptionsAllowed > 0 {
		setAllowed(&st, metav1.ConditionTrue, policyv1.SufficientPodsReason, "", now)
	} else {
		setAllowed(&st, metav1.ConditionFalse, policyv1.InsufficientPodsReason, "", now)
	}
	return st, again
}

func setAllowed(st *policyv1.PodDisruptionBudgetStatus, s metav1.ConditionStatus, reason, text string, now time.Time) {
	st.Conditions = slices.Clone(st.Conditions)
	apimeta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: s, Reason: reason,
		Message: text, ObservedGeneration: st.ObservedGeneration, LastTransitionTime: metav1.NewTime(now)})
}

// podChanged wakes the budgets of a pod whose health or labels changed.
func podChanged(c client.Change, read resource.Reader, wake func(ns, name string)) {
	old, _ := c.Old.(*corev1.Pod)
	next, _ := c.New.(*corev1.Pod)
	if old != nil && next != nil && pods.Ready(old) == pods.Ready(next) && (old.DeletionTimestamp == nil) == (next.DeletionTimestamp == nil) &&
		old.Status.Phase == next.Status.Phase && maps.Equal(old.Labels, next.Labels) {
		return
	}
	for obj := range read.Each(kinds.PodDisruptionBudgets, c.Object().GetNamespace()) {
		b := obj.(*policyv1.PodDisruptionBudget)
		if old != nil && loop.Selects(b.Spec.Selector, old.Labels) || next != nil && loop.Selects(b.Spec.Selector, next.Labels) {
			wake(b.Namespace, b.Name)
		}
	}
}

// scaled wakes the budgets of a namespace when something there is scaled, made or removed.
func scaled(c client.Change, read resource.Reader, wake func(ns, name string)) {
	if c.Old != nil && c.New != nil {
		a, _ := resource.ScaleOf(c.Kind, c.Old)
		b, _ := resource.ScaleOf(c.Kind, c.New)
		if a.Replicas == b.Replicas {
			return
		}
	}
	for obj := range read.Each(kinds.PodDisruptionBudgets, c.Object().GetNamespace()) {
		wake(obj.GetNamespace(), obj.GetName())
	}
}

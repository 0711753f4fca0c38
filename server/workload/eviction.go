package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// maxDisrupted bounds the pods whose eviction the disruption loop has not seen yet.
const maxDisrupted = 2000

// evict deletes a pod unless a disruption budget forbids it.
func (s extension) evict(ctx context.Context, r *server.Request, in resource.Object) (resource.Object, error) {
	if err := s.MutateCall(ctx, r, in); err != nil {
		return nil, err
	}
	opts, err := evictionOptions(r, in)
	if err != nil {
		return nil, err
	}
	if err := s.ValidateCall(ctx, r, in); err != nil {
		return nil, err
	}
	one := *r
	one.Sub, one.GVK = "", r.Kind.Info().GVK
	for try := 0; ; try++ {
		err := s.evictOnce(ctx, &one, opts.DeepCopy())
		given := opts.Preconditions != nil && (opts.Preconditions.ResourceVersion != nil || opts.Preconditions.UID != nil)
		if err == nil || given || !apierrors.IsConflict(err) || try == server.Retries {
			return nil, err
		}
	}
}

func evictionOptions(r *server.Request, in resource.Object) (*metav1.DeleteOptions, error) {
	e, ok := in.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", in))
	}
	opts := e.DeleteOptions
	if in.GetName() != r.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	if unread := opts.IgnoreStoreReadErrorWithClusterBreakingPotential; unread != nil && *unread {
		return nil, apierrors.NewInvalid(policyv1.SchemeGroupVersion.WithKind("Eviction").GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true,
				"can not be set for pod eviction, try after removing the option")})
	}
	asked := server.DryRun(r)
	if len(opts.DryRun) > 0 && len(asked) > 0 && !equality.Semantic.DeepEqual(opts.DryRun, asked) {
		return nil, server.PlainError(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", asked, opts.DryRun))
	}
	if len(opts.DryRun) == 0 {
		opts.DryRun = asked
	}
	r.DryRun = slices.Contains(opts.DryRun, metav1.DryRunAll)
	return opts, nil
}

func (s extension) evictOnce(ctx context.Context, r *server.Request, opts *metav1.DeleteOptions) error {
	snap, err := s.Fresh(ctx)
	if err != nil {
		return err
	}
	pod, ok := snap.Lookup(r.Kind, r.Namespace, r.Name).(*corev1.Pod)
	if !ok {
		return server.NotFound(r)
	}
	same := false // the decision holds only for the pod as it was read
	var spares *policyv1.PodDisruptionBudget
	if ended(pod) || pod.Status.Phase == corev1.PodPending {
		same = !ended(pod)
	} else if spares, err = s.charge(ctx, r, snap, pod, opts); err != nil {
		return err
	}
	free := opts.Preconditions == nil || opts.Preconditions.ResourceVersion == nil
	if (same || spares != nil) && free {
		if opts.Preconditions == nil {
			opts.Preconditions = &metav1.Preconditions{}
		}
		opts.Preconditions.ResourceVersion = &pod.ResourceVersion
	}
	err = s.disrupt(ctx, r, opts)
	if spares != nil && free && apierrors.IsConflict(err) { // it may be ready by now
		return processed(spares.Name)
	}
	return err
}

// ended says that the pod is past disruption.
func ended(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || core.Terminal(pod)
}

// charge charges the eviction to the pod's budget, if it has one: not before the options' preconditions hold, so that it does not pay for
// what will not be done. It returns the budget that is not charged because the pod is not ready anyway.
func (s extension) charge(ctx context.Context, r *server.Request, read resource.Reader, pod *corev1.Pod, opts *metav1.DeleteOptions) (
	spares *policyv1.PodDisruptionBudget, err error) {
	k, ok := s.Kinds.GR(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"})
	if !ok {
		return nil, nil
	}
	budget, err := budgetOf(k, read, pod)
	if budget == nil || err != nil {
		return nil, err
	}
	if !ready(pod) && letsGo(budget) {
		return budget, nil
	}
	b := &server.Request{Kind: k, GVK: k.Info().GVK, Namespace: budget.Namespace, Name: budget.Name, Sub: "status", Manager: "kube-apiserver",
		DryRun: r.DryRun}
	_, err = s.Edit(ctx, b, func(obj resource.Object) error {
		b1 := obj.(*policyv1.PodDisruptionBudget)
		before := *b1
		if err := s.decrement(b1, pod.Name); err != nil {
			return err
		}
		if err := server.CheckPreconditions(r, opts.Preconditions, pod); err != nil {
			return err
		}
		return s.Own(ctx, b, &before, b1)
	})
	return nil, err
}

// budgetOf is the only budget that guards the pod, or nil.
func budgetOf(k resource.Kind, read resource.Reader, pod *corev1.Pod) (budget *policyv1.PodDisruptionBudget, err error) {
	for obj := range read.Each(k, pod.Namespace) {
		b, ok := obj.(*policyv1.PodDisruptionBudget)
		if !ok || !guards(b, pod) {
			continue
		}
		if budget != nil {
			return nil, server.PlainError("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		}
		budget = b
	}
	return budget, nil
}

func guards(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && sel.Matches(labels.Set(pod.Labels))
}

// letsGo says that the budget lets pods go that are not ready.
func letsGo(b *policyv1.PodDisruptionBudget) bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// over refuses an eviction for now.
func over(retry int, format string, args ...any) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retry)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...)})
	return err
}

// processed says that nobody knows yet what the budget allows.
func processed(budget string) error {
	return over(10, "The disruption budget %s is still being processed by the server.", budget)
}

// decrement takes one disruption from the budget, or says why there is none.
func (s extension) decrement(b *policyv1.PodDisruptionBudget, pod string) error {
	gr := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	forbid := func(text, cause string) error {
		err := apierrors.NewForbidden(gr, b.Name, errors.New(text))
		if s.Kinds.Features().AtLeast(37) {
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause,
				Message: fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: %s", b.Name, cause)})
		}
		return err
	}
	st := &b.Status
	switch {
	case st.ObservedGeneration < b.Generation:
		return processed(b.Name)
	case st.DisruptionsAllowed < 0:
		return forbid("pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	case len(st.DisruptedPods) > maxDisrupted:
		return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			"too many pending evictions not confirmed by PDB controller")
	case st.DisruptionsAllowed == 0:
		return over(0, "The disruption budget %s %s", b.Name, allowsNone(st))
	}
	st.Conditions, st.DisruptedPods = slices.Clone(st.Conditions), maps.Clone(st.DisruptedPods)
	if st.DisruptionsAllowed--; st.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.InsufficientPodsReason, ObservedGeneration: st.ObservedGeneration})
	}
	if st.DisruptedPods == nil {
		st.DisruptedPods = map[string]metav1.Time{}
	}
	st.DisruptedPods[pod] = s.Stamp()
	return nil
}

// allowsNone says why a budget allows no disruption. Its counts mean nothing while its loop can't make them.
func allowsNone(st *policyv1.PodDisruptionBudgetStatus) string {
	const none = "does not allow evicting pods currently"
	c := meta.FindStatusCondition(st.Conditions, policyv1.DisruptionAllowedCondition)
	told := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case told && c.Reason == policyv1.SyncFailedReason:
		return none + " because it failed sync: " + c.Message
	case st.CurrentHealthy <= st.DesiredHealthy:
		return fmt.Sprintf("needs %d healthy pods and has %d currently", st.DesiredHealthy, st.CurrentHealthy)
	case told:
		return fmt.Sprintf("%s (%s): %s", none, c.Reason, c.Message)
	}
	return none
}

// disrupt marks the pod as disrupted, so that its owner can tell eviction from failure, and deletes it. A dry run does not mark it: it
// hears first what is wrong with the options.
func (s extension) disrupt(ctx context.Context, r *server.Request, opts *metav1.DeleteOptions) error {
	if len(opts.DryRun) > 0 { // also one of a word that is none
		_, _, err := s.Delete(ctx, r.Admitted(), opts)
		return err
	}
	e, err := s.Edit(ctx, r, func(obj resource.Object) error {
		if err := server.CheckPreconditions(r, opts.Preconditions, obj); err != nil {
			return err
		}
		s.setPodCondition(obj.(*corev1.Pod), corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
		return nil
	})
	if err != nil {
		return err
	}
	if opts.Preconditions != nil && opts.Preconditions.ResourceVersion != nil {
		rev := e.Object.GetResourceVersion()
		opts.Preconditions.ResourceVersion = &rev
	}
	_, _, err = s.Delete(ctx, r.Admitted(), opts) // admission has judged the eviction
	return err
}

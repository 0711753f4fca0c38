package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/scheduling"
	"github.com/kloop-dev/kloop/resource"
)

// mutatePriority turns the name of a pod's priority class into its value.
func mutatePriority(ctx context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	switch {
	case !ok || !r.On("", "pods", admission.Create, admission.Update):
		return nil
	case r.Op == admission.Create:
		return setPriority(ctx, r, pod)
	}
	if old, ok := r.Old.(*corev1.Pod); ok { // clients that do not know the fields leave them out
		if pod.Spec.Priority == nil {
			pod.Spec.Priority = old.Spec.Priority
		}
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
		}
	}
	return nil
}

func setPriority(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
	class, err := classOf(ctx, r, pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	priority, policy := int32(0), corev1.PreemptLowerPriority
	if class != nil {
		pod.Spec.PriorityClassName, priority = class.Name, class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	if p := pod.Spec.Priority; p != nil && *p != priority {
		return r.Refuse("the integer value of priority (%d) must not be provided in pod spec; priority admission controller "+
			"computed %d from the given PriorityClass name", *p, priority)
	}
	if p := pod.Spec.PreemptionPolicy; p != nil && *p != policy {
		return r.Refuse("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission "+
			"controller computed %s from the given PriorityClass name", *p, policy)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	return nil
}

// classOf finds the class of that name, the default one if the name is empty; nil if there is none.
func classOf(ctx context.Context, r *admission.Request, name string) (*schedulingv1.PriorityClass, error) {
	if name == "" {
		return defaultClass(r.Read), nil
	}
	if c := resource.Get(r.Read, scheduling.PriorityClasses, "", name); c != nil {
		return c, nil
	}
	c, err := admission.Live(ctx, r, scheduling.PriorityClasses, "", name)
	if apierrors.IsNotFound(err) {
		return nil, r.Refuse("no PriorityClass with name %v was found", name)
	}
	return c, err
}

// defaultClass is the class of pods that name none; of several it is the lowest.
func defaultClass(read resource.Reader) (lowest *schedulingv1.PriorityClass) {
	for _, c := range resource.List(read, scheduling.PriorityClasses, "") {
		if c.GlobalDefault && (lowest == nil || c.Value < lowest.Value) {
			lowest = c
		}
	}
	return lowest
}

// validatePriority keeps the default class the only one.
func validatePriority(_ context.Context, r *admission.Request) error {
	c, ok := r.Object.(*schedulingv1.PriorityClass)
	if !ok || !r.On(schedulingv1.GroupName, "priorityclasses", admission.Create, admission.Update) || !c.GlobalDefault {
		return nil
	}
	if d := defaultClass(r.Read); d != nil && (r.Op == admission.Create || d.Name != c.Name) {
		return r.Refuse("PriorityClass %v is already marked as default. Only one default can exist", d.Name)
	}
	return nil
}

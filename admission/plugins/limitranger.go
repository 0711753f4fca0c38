package plugins

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/quota"
	kloop "github.com/kloop-dev/kloop/resource"
)

const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// mutateLimits fills in the requests and limits that a pod's containers leave open.
func mutateLimits(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	resized := r.Of("", "pods", admission.Update) && r.Sub == "resize"
	if !ok || !resized && !r.On("", "pods", admission.Create) {
		return nil
	}
	for _, lr := range kloop.List(r.Read, core.LimitRanges, r.Namespace) {
		if notes := fillLimits(&pod.Spec, lr); len(notes) > 0 {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
		}
	}
	return nil
}

// fillLimits applies one LimitRange and says what it set.
func fillLimits(spec *corev1.PodSpec, lr *corev1.LimitRange) (notes []string) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range lr.Spec.Limits {
		if item.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, item.DefaultRequest)
			maps.Copy(limits, item.Default)
		}
	}
	each := func(kind string, list []corev1.Container) {
		for i := range list {
			c := &list[i]
			if set := fill(&c.Resources.Requests, requests); len(set) > 0 {
				notes = append(notes, fmt.Sprintf("%s request for %s %s", strings.Join(set, ", "), kind, c.Name))
			}
			if set := fill(&c.Resources.Limits, limits); len(set) > 0 {
				notes = append(notes, fmt.Sprintf("%s limit for %s %s", strings.Join(set, ", "), kind, c.Name))
			}
		}
	}
	each("container", spec.Containers)
	each("init container", spec.InitContainers)
	return notes
}

func fill(have *corev1.ResourceList, defaults corev1.ResourceList) (set []string) {
	for name, q := range defaults {
		if _, ok := (*have)[name]; ok {
			continue
		}
		if *have == nil {
			*have = corev1.ResourceList{}
		}
		(*have)[name] = q.DeepCopy()
		set = append(set, string(name))
	}
	slices.Sort(set)
	return set
}

// validateLimits refuses pods and claims that are outside of what the namespace allows.
func validateLimits(_ context.Context, r *admission.Request) error {
	switch {
	case r.On("", "pods", admission.Create), r.Of("", "pods", admission.Update) && r.Sub == "resize", r.On("", "persistentvolumeclaims",
		admission.Create, admission.Update):
	default:
		return nil
	}
	if r.Op == admission.Update && r.Object.GetDeletionTimestamp() != nil {
		return nil
	}
	for _, lr := range kloop.List(r.Read, core.LimitRanges, r.Namespace) {
		var errs []error
		switch o := r.Object.(type) {
		case *corev1.Pod:
			errs = podLimits(&o.Spec, lr)
		case *corev1.PersistentVolumeClaim:
			errs = claimLimits(o, lr)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return r.Refuse("%w", err)
		}
	}
	return nil
}

func podLimits(spec *corev1.PodSpec, lr *corev1.LimitRange) (errs []error) {
	for _, item := range lr.Spec.Limits {
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
				errs = append(errs, bounds(item, c.Resources.Requests, c.Resources.Limits)...)
			}
		case corev1.LimitTypePod:
			errs = append(errs, bounds(item, quota.PodRequests(spec), quota.PodLimits(spec))...)
		}
	}
	return errs
}

func claimLimits(claim *corev1.PersistentVolumeClaim, lr *corev1.LimitRange) (errs []error) {
	for _, item := range lr.Spec.Limits {
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		have := claim.Spec.Resources.Requests
		for name, q := range admission.Sorted(item.Min) {
			errs = appendErr(errs, atLeast(item.Type, name, q, have, nil))
		}
		for name, q := range admission.Sorted(item.Max) {
			req, ok := have[name]
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, q.String()))
			case req.Cmp(q) > 0:
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, q.String(),
					req.String()))
			}
		}
	}
	return errs
}

func appendErr(errs []error, err error) []error {
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

func bounds(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) (errs []error) {
	for name, q := range admission.Sorted(item.Min) {
		errs = appendErr(errs, atLeast(item.Type, name, q, requests, limits))
	}
	for name, q := range admission.Sorted(item.Max) {
		errs = appendErr(errs, atMost(item.Type, name, q, requests, limits))
	}
	for name, q := range admission.Sorted(item.MaxLimitRequestRatio) {
		errs = appendErr(errs, inRatio(item.Type, name, q, requests, limits))
	}
	return errs
}

func atLeast(t corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	req, ok := requests[name]
	lim, limited := limits[name]
	switch {
	case !ok:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, t, bound.String())
	case req.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, t, bound.String(), req.String())
	case limited && lim.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, t, bound.String(), lim.String())
	}
	return nil
}

func atMost(t corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	req, ok := requests[name]
	lim, limited := limits[name]
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, t, bound.String())
	case lim.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, t, bound.String(), lim.String())
	case ok && req.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, t, bound.String(), req.String())
	}
	return nil
}

func inRatio(t corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	req, lim := requests[name], limits[name]
	what := fmt.Sprintf("%s max limit to request ratio per %s is %s", name, t, bound.String())
	switch {
	case req.IsZero():
		return fmt.Errorf("%s, but no request is specified or request is 0", what)
	case lim.IsZero():
		return fmt.Errorf("%s, but no limit is specified or limit is 0", what)
	}
	if ratio := lim.AsApproximateFloat64() / req.AsApproximateFloat64(); ratio > bound.AsApproximateFloat64() {
		return fmt.Errorf("%s, but provided ratio is %f", what, ratio)
	}
	return nil
}

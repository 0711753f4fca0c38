package plugins

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/node"
	"github.com/kloop-dev/kloop/resource"
)

const overheadDiffers = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"

// mutateRuntimeClass adds to a pod what its runtime class costs, and where it can run.
func mutateRuntimeClass(ctx context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create) {
		return nil
	}
	class, err := runtimeOf(ctx, r, pod)
	if class == nil || err != nil {
		return err
	}
	if class.Overhead != nil {
		if pod.Spec.Overhead != nil && !equality.Semantic.DeepEqual(pod.Spec.Overhead, class.Overhead.PodFixed) {
			return r.Refuse(overheadDiffers)
		}
		pod.Spec.Overhead = class.Overhead.DeepCopy().PodFixed
	}
	if class.Scheduling != nil {
		return schedule(r, pod, class.Scheduling)
	}
	return nil
}

func schedule(r *admission.Request, pod *corev1.Pod, s *nodev1.Scheduling) error {
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		want := s.NodeSelector[key]
		if have, ok := pod.Spec.NodeSelector[key]; ok && have != want {
			return r.Refuse("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, want, key, have)
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = want
	}
	for _, t := range s.Tolerations {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, t) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, *t.DeepCopy())
		}
	}
	return nil
}

// validateRuntimeClass makes sure that a pod's overhead equals its class's.
func validateRuntimeClass(ctx context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create) {
		return nil
	}
	class, err := runtimeOf(ctx, r, pod)
	switch {
	case err != nil:
		return err
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(pod.Spec.Overhead, class.Overhead.PodFixed) {
			return r.Refuse(overheadDiffers)
		}
	case pod.Spec.Overhead != nil:
		return r.Refuse("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	}
	return nil
}

func runtimeOf(ctx context.Context, r *admission.Request, pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	if c := resource.Get(r.Read, node.RuntimeClasses, "", name); c != nil {
		return c, nil
	}
	if bad := path.IsValidPathSegmentName(name); len(bad) > 0 { // upstream's client asks for no such path
		return nil, fmt.Errorf("invalid resource name %q: %v", name, bad)
	}
	c, err := admission.Live(ctx, r, node.RuntimeClasses, "", name)
	if apierrors.IsNotFound(err) {
		return nil, r.Refuse("pod rejected: RuntimeClass %q not found", name)
	}
	return c, err
}

package pods

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// takeResize lets nothing but resources and resize policies change. A pod with other containers is left as it is: it is
// refused.
func takeResize(p, old *corev1.Pod) {
	asked := p.Spec
	if len(asked.Containers) != len(old.Spec.Containers) || len(asked.InitContainers) != len(old.Spec.InitContainers) {
		return
	}
	metav1.ResetObjectMetaForStatus(p, old)
	p.Spec, p.Status = *old.Spec.DeepCopy(), old.Status
	p.Spec.Containers = takeSizes(p.Spec.Containers, asked.Containers)
	p.Spec.InitContainers = takeSizes(p.Spec.InitContainers, asked.InitContainers)
	p.Spec.Resources = asked.Resources
}

// takeSizes returns the containers of to in the sizes of from, or from itself if these are others.
func takeSizes(to, from []corev1.Container) []corev1.Container {
	for i := range to {
		if to[i].Name != from[i].Name {
			return from
		}
		to[i].Resources, to[i].ResizePolicy = from[i].Resources, from[i].ResizePolicy
	}
	return to
}

// validateResize lets processors and memory change, as long as the class of service stays and nothing given is taken away.
func validateResize(on *features.Set, p, old *corev1.Pod) field.ErrorList {
	errs := podspec.ValidatePod(on, p, old)
	if _, static := old.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	if reclassed(p, old) {
		errs = append(errs, field.Invalid(specPath, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !resizable(old.Status.ContainerStatuses) {
		errs = append(errs, field.Forbidden(specPath, "Pod running on node without support for resize"))
	}
	errs = append(errs, podResized(p.Spec.Resources, old.Spec.Resources)...)
	if others := sameContainers(p, old); len(others) > 0 {
		return append(errs, others...)
	}
	return append(errs, changedOtherwise(on, p, old)...)
}

// changedOtherwise refuses that amounts are taken away, and that anything but processors and memory changes.
func changedOtherwise(on *features.Set, p, old *corev1.Pod) (errs field.ErrorList) {
	kept := func(name string, is, was []corev1.Container) {
		for i := range was {
			at := specPath.Child(name).Index(i).Child("resources")
			errs = append(errs, resized(&is[i].Resources, &was[i].Resources, "resource", at)...)
		}
	}
	kept("initContainers", p.Spec.InitContainers, old.Spec.InitContainers)
	kept("containers", p.Spec.Containers, old.Spec.Containers)
	for i := range old.Spec.Containers {
		if was := &old.Spec.Containers[i]; !resource.Same(otherwise(on, &p.Spec.Containers[i], was), *was) {
			errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable"))
		}
	}
	for i := range old.Spec.InitContainers {
		at := specPath.Child("initContainers").Index(i)
		errs = append(errs, initResized(on, &p.Spec.InitContainers[i], &old.Spec.InitContainers[i], at)...)
	}
	return errs
}

// reclassed says whether a resize would change the class of a pod. One that got its class by the rules of 1.36 keeps it.
func reclassed(p, old *corev1.Pod) bool {
	is, computed := podspec.QOS(&p.Spec), podspec.QOS(&old.Spec)
	was := cmp.Or(old.Status.QOSClass, computed)
	return is != was && (was == computed || was != corev1.PodQOSBestEffort || !podspec.NamesNothing(p.Spec.Resources))
}

// resizable says whether the node of a pod tells the sizes of what runs: older agents can't change them.
func resizable(list []corev1.ContainerStatus) bool {
	i := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	return i < 0 || list[i].Resources != nil
}

// podResized checks the size of the pod as a whole.
func podResized(is, was *corev1.ResourceRequirements) (errs field.ErrorList) {
	at := specPath.Child("resources")
	switch {
	case !hasSize(is) && !hasSize(was):
		return nil
	case is == nil:
		return field.ErrorList{field.Forbidden(at, "pod-level resources cannot be removed")}
	case was != nil:
		errs = resized(is, was, "pod-level resource", at)
	default:
		was = &corev1.ResourceRequirements{}
	}
	if !resource.Same(corev1.ResourceRequirements{Limits: rest(is.Limits), Requests: rest(is.Requests), Claims: is.Claims},
		corev1.ResourceRequirements{Limits: rest(was.Limits), Requests: rest(was.Requests), Claims: was.Claims}) {
		errs = append(errs, field.Forbidden(specPath, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

func hasSize(r *corev1.ResourceRequirements) bool {
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

// sameContainers refuses other containers than there are, or in another order.
func sameContainers(p, old *corev1.Pod) (errs field.ErrorList) {
	for _, l := range []struct {
		name    string
		is, was []corev1.Container
	}{{"containers", p.Spec.Containers, old.Spec.Containers}, {"initContainers", p.Spec.InitContainers, old.Spec.InitContainers}} {
		at := specPath.Child(l.name)
		if len(l.is) != len(l.was) {
			errs = append(errs, field.Forbidden(at, l.name+" may not be added or removed on resize"))
			continue
		}
		for i := range l.was {
			if l.is[i].Name != l.was[i].Name {
				errs = append(errs, field.Forbidden(at.Index(i).Child("name"), l.name+" may not be renamed or reordered on resize"))
			}
		}
	}
	return errs
}

// initResized checks an init container. One that is to start anew for it has no sense: it would run a second time.
func initResized(on *features.Set, c, was *corev1.Container, path *field.Path) (errs field.ErrorList) {
	if !resource.Same(otherwise(on, c, was), *was) {
		errs = append(errs, field.Forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
	}
	side := podspec.Sidecar(c)
	for _, p := range c.ResizePolicy {
		if !side && p.RestartPolicy == corev1.RestartContainer && !resource.Same(*c, *was) {
			errs = append(errs, field.Forbidden(path, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
		}
	}
	return errs
}

// resized refuses that an amount is taken away.
func resized(is, was *corev1.ResourceRequirements, what string, path *field.Path) (errs field.ErrorList) {
	if removed(is.Requests, was.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), what+" requests cannot be removed"))
	}
	if removed(is.Limits, was.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), what+" limits cannot be removed"))
	}
	return errs
}

func removed(is, was corev1.ResourceList) bool {
	for n := range was {
		if _, kept := is[n]; !kept {
			return true
		}
	}
	return false
}

// otherwise returns a container with its old processors and memory. Claims for devices stay as they are; up to 1.36 they are lost, so that
// a container that had some can't be resized, and new ones are no change.
func otherwise(on *features.Set, c, was *corev1.Container) corev1.Container {
	o := *c
	o.Resources = corev1.ResourceRequirements{Limits: rest(c.Resources.Limits), Requests: rest(c.Resources.Requests)}
	if on.AtLeast(37) {
		o.Resources.Claims = c.Resources.Claims
	}
	for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := was.Resources.Limits[n]; ok {
			o.Resources.Limits[n] = q
		}
		if q, ok := was.Resources.Requests[n]; ok {
			o.Resources.Requests[n] = q
		}
	}
	return o
}

// rest returns the amounts of all but processors and memory.
func rest(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, list)
	delete(out, corev1.ResourceCPU)
	delete(out, corev1.ResourceMemory)
	return out
}

package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// bind puts a pod on a node. It is the scheduler's write, so it does only what it must: no validation of the
// whole pod, no generation.
func (s extension) bind(ctx context.Context, r *server.Request, in resource.Object) (resource.Object, error) {
	b, ok := in.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %T", in))
	}
	pods, ok := s.Kinds.GR(schema.GroupResource{Resource: "pods"})
	if !ok {
		return nil, server.NotFound(r)
	}
	one := *r
	if one.Name == "" { // the older way: what a new object's metadata say that only the server does is passed over
		one.Name, b.UID = b.Name, ""
		if b.Name == "" {
			return nil, apierrors.NewBadRequest("Name parameter required.")
		}
	}
	if err := s.MutateCall(ctx, &one, b); err != nil {
		return nil, err
	}
	if one.Sub != "" && b.Name != one.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if err := s.bindable(b); err != nil {
		return nil, err
	}
	if err := s.ValidateCall(ctx, &one, b); err != nil {
		return nil, err
	}
	one.Kind, one.Sub, one.GVK = pods, "", pods.Info().GVK
	if _, err := s.Edit(ctx, &one, func(obj resource.Object) error { return s.assign(obj.(*corev1.Pod), b) }); err != nil {
		return nil, err
	}
	return nil, nil
}

// bindable validates a binding; the error has no reason, as upstream's has none.
func (s extension) bindable(b *corev1.Binding) error {
	other, nameless := "", ""
	if k := b.Target.Kind; k != "" && k != "Node" {
		other = fmt.Sprintf("target.kind: Unsupported value: %q: supported values: \"Node\", \"<empty>\"", k)
	}
	if b.Target.Name == "" {
		nameless = "target.name: Required value"
	}
	switch {
	case other != "" && nameless != "":
		return server.PlainError("[" + other + ", " + nameless + "]")
	case other != "" || nameless != "":
		return server.PlainError(other + nameless)
	}
	if says := validation.NameIsDNSSubdomain(b.Target.Name, false); len(says) > 0 && s.Kinds.Features().AtLeast(37) {
		return server.PlainError(fmt.Sprintf("target.name: Invalid value: %q: %s", b.Target.Name, says[0]))
	}
	return nil
}

// assign writes the node into the pod.
func (s extension) assign(pod *corev1.Pod, b *corev1.Binding) error {
	refuse := func(resource, format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: resource}, pod.Name, fmt.Errorf(format, args...))
	}
	const stored, bound = "pods", "pods/binding" // preconditions are the store's upstream, the rest is the subresource's
	if b.UID != "" && b.UID != pod.UID {
		return refuse(stored, "Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, pod.UID)
	}
	if b.ResourceVersion != "" && b.ResourceVersion != pod.ResourceVersion {
		return refuse(stored, "Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
			b.ResourceVersion, pod.ResourceVersion)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return refuse(bound, "pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return refuse(bound, "pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return refuse(bound, "pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	pod.Spec.NodeName = b.Target.Name
	pod.Status.NominatedNodeName = "" // the wait that it stood for is over
	if len(b.Annotations) > 0 {
		pod.Annotations = merged(pod.Annotations, b.Annotations)
	}
	if len(b.Labels) > 0 { // what the user set stays
		pod.Labels = merged(b.Labels, pod.Labels)
	}
	s.setPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return nil
}

// merged has the keys of both; those of the second count.
func merged(first, second map[string]string) map[string]string {
	all := make(map[string]string, len(first)+len(second))
	maps.Copy(all, first)
	maps.Copy(all, second)
	return all
}

// setPodCondition sets a condition of a pod; the time of its transition moves only with its status. It tells no generation: as upstream's,
// the server has observed none.
func (s extension) setPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	pod.Status.Conditions = slices.Clone(pod.Status.Conditions)
	c.LastTransitionTime = s.Stamp()
	for i, old := range pod.Status.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		c.LastProbeTime = old.LastProbeTime
		pod.Status.Conditions[i] = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/admission"
)

const (
	nodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"
	// DefaultNodeSelector is the name in NodeSelectors of what holds for namespaces that say nothing.
	DefaultNodeSelector = "clusterDefaultNodeSelector"
)

// nodeSelectors keep the pods of a namespace on the nodes that the namespace names. The map has the selector of namespaces that name
// none, and, by namespace, what pods may ask for.
type nodeSelectors map[string]string

func (s nodeSelectors) mutate(ctx context.Context, r *admission.Request) error {
	pod, own, err := s.of(ctx, r)
	if pod == nil || err != nil {
		return err
	}
	if labels.Conflicts(own, pod.Spec.NodeSelector) {
		return r.Refuse("pod node label selector conflicts with its namespace node label selector")
	}
	if len(own) > 0 {
		pod.Spec.NodeSelector = labels.Merge(own, pod.Spec.NodeSelector)
	}
	return nil
}

func (s nodeSelectors) validate(ctx context.Context, r *admission.Request) error {
	pod, own, err := s.of(ctx, r)
	if pod == nil || err != nil {
		return err
	}
	if labels.Conflicts(own, pod.Spec.NodeSelector) {
		return r.Refuse("pod node label selector conflicts with its namespace node label selector")
	}
	allowed, err := labels.ConvertSelectorToLabelsMap(s[r.Namespace])
	if err != nil {
		return admission.Unclassified(err.Error())
	}
	for key, value := range pod.Spec.NodeSelector {
		if own, ok := allowed[key]; len(allowed) > 0 && (!ok || own != value) {
			return r.Refuse("pod node label selector labels conflict with its namespace whitelist")
		}
	}
	return nil
}

// of is the pod that is made, and the selector of its namespace; nil when the request is not about a new pod.
func (s nodeSelectors) of(ctx context.Context, r *admission.Request) (*corev1.Pod, labels.Set, error) {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok || !r.On("", "pods", admission.Create) {
		return nil, nil, nil
	}
	text, found, err := admission.AnnotationOf(ctx, r, nodeSelectorAnnotation)
	if err != nil {
		return nil, nil, err
	}
	if !found {
		text = s[DefaultNodeSelector]
	}
	own, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, nil, admission.Unclassified(err.Error())
	}
	return pod, own, nil
}

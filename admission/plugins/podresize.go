package plugins

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// changedOnNode returns a pod on a node whose spec this request changes, and the pod before; nil: the request does no such thing.
func changedOnNode(r *admission.Request) (pod, old *corev1.Pod) {
	if !r.Of("", "pods", admission.Update) {
		return nil, nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	old, was := r.Old.(*corev1.Pod)
	if !ok || !was || pod.Spec.NodeName == "" || resource.Same(&pod.Spec, &old.Spec) {
		return nil, nil
	}
	return pod, old
}

func nodeOf(r *admission.Request, pod *corev1.Pod) (*corev1.Node, error) {
	if node := resource.Get(r.Read, core.Nodes, "", pod.Spec.NodeName); node != nil {
		return node, nil
	}
	return nil, r.Refuse("node %q not found", pod.Spec.NodeName)
}

// checkPodFeatures refuses what the node of a pod does not say that it can do.
func checkPodFeatures(_ context.Context, r *admission.Request) error {
	pod, old := changedOnNode(r)
	if pod == nil || r.Sub != "" && r.Sub != "resize" || !r.Features.On("NodeDeclaredFeatures") {
		return nil
	}
	info := func(p *corev1.Pod) *types.PodInfo { return &types.PodInfo{Spec: &p.Spec, Status: &p.Status} }
	needs, err := ndf.DefaultFramework.InferForPodUpdate(info(old), info(pod), version.MajorMinor(1, uint(r.Features.Minor())))
	if err != nil || needs.IsEmpty() {
		return err
	}
	node, err := nodeOf(r, pod)
	if err != nil {
		return err
	}
	if fits, err := ndf.DefaultFramework.MatchNode(needs, node); err != nil || !fits.IsMatch {
		return r.Refuse("pod update requires features %s which are not available on node %q",
			strings.Join(fits.UnsatisfiedRequirements, ", "), node.Name)
	}
	return nil
}

// checkPodResize refuses a size for which the node of the pod has no room, whatever else runs there.
func checkPodResize(_ context.Context, r *admission.Request) error {
	pod, _ := changedOnNode(r)
	if pod == nil || r.Sub != "resize" {
		return nil
	}
	node, err := nodeOf(r, pod)
	if err != nil {
		return err
	}
	if system := node.Labels[corev1.LabelOSStable]; system != "" && system != "linux" {
		return r.Because("UnsupportedPlatform", "pod resize is only supported on linux nodes, node %q is %q", node.Name, system)
	}
	asked, has := podresource.PodRequests(pod, podresource.PodResourcesOptions{}), node.Status.Allocatable
	var lacks []string
	if a, b := asked.Cpu(), has.Cpu(); a.Cmp(*b) > 0 {
		lacks = append(lacks, fmt.Sprintf("cpu, requested: %d, allocatable: %d", a.MilliValue(), b.MilliValue()))
	}
	if a, b := asked.Memory(), has.Memory(); a.Cmp(*b) > 0 {
		lacks = append(lacks, fmt.Sprintf("memory, requested: %d, allocatable: %d", a.Value(), b.Value()))
	}
	if lacks != nil {
		return r.Because("NodeCapacity", "node didn't have enough allocatable resources: %s", strings.Join(lacks, "; "))
	}
	return nil
}

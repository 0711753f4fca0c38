package plugins

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth/authtest"
	"github.com/kloop-dev/kloop/kinds/core"
)

func TestPodResizeOnNode(t *testing.T) {
	small := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "small"},
		Status: corev1.NodeStatus{Allocatable: amounts("cpu", "1", "memory", "1Gi")}}
	windows := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "windows", Labels: map[string]string{"kubernetes.io/os": "windows"}}}
	able := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "able"}, Status: corev1.NodeStatus{Allocatable: small.Status.Allocatable,
		DeclaredFeatures: []string{"InPlacePodLevelResourcesVerticalScaling"}}}
	read := authtest.Of(core.Nodes, small)
	authtest.Put(read, core.Nodes, windows)
	authtest.Put(read, core.Nodes, able)
	for _, c := range []struct {
		name           string
		node, cpu, sub string
		whole          bool
		cause          metav1.CauseType
		refused        bool
	}{
		{name: "fits its node", node: "small", cpu: "900m", sub: "resize"},
		{name: "larger than its node", node: "small", cpu: "2", sub: "resize", refused: true, cause: "NodeCapacity"},
		{name: "not a resize", node: "small", cpu: "2"},
		{name: "on no node yet", node: "", cpu: "2", sub: "resize"},
		{name: "on a node that is gone", node: "gone", cpu: "500m", sub: "resize", refused: true},
		{name: "on a node whose system can't", node: "windows", cpu: "500m", sub: "resize", refused: true, cause: "UnsupportedPlatform"},
		{name: "of the whole pod on a node that can't", node: "small", cpu: "500m", sub: "resize", whole: true, refused: true},
		{name: "of the whole pod on a node that can", node: "able", cpu: "500m", sub: "resize", whole: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := simplePod()
			old.Spec.NodeName = c.node
			pod := old.DeepCopy()
			pod.Spec.Containers[0].Resources.Requests = amounts("cpu", c.cpu)
			if c.whole {
				pod.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("cpu", c.cpu)}
			}
			var err error
			for _, name := range []string{"NodeDeclaredFeatureValidator", "PodResizeValidator"} {
				if _, is := admit(plugin(t, name), &admission.Request{Op: admission.Update, Kind: core.Pods, Sub: c.sub, Old: old,
					Read: read}, pod); is != nil {
					err = is
				}
			}
			if apierrors.IsForbidden(err) != c.refused || c.cause != "" && !apierrors.HasStatusCause(err, c.cause) {
				t.Errorf("%+v: %v", c, err)
			}
		})
	}
}

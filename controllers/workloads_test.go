package controllers_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

func TestDaemonSet(t *testing.T) {
	simulate(t, 3, func(c *cluster) {
		l := map[string]string{"app": "d"}
		make1(c, kinds.DaemonSets, &appsv1.DaemonSet{ObjectMeta: meta("d"), Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}})
		status := func(n, updated int32) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				st := resource.Get(r, kinds.DaemonSets, "default", "d").Status
				return st.NumberReady == n && st.DesiredNumberScheduled == n && st.UpdatedNumberScheduled == updated && st.NumberAvailable == n
			}
		}
		c.until("one on each node", status(3, 3))
		if err := sim.Nodes(c.t.Context(), c, 5); err != nil {
			c.t.Fatal(err)
		}
		c.until("and on the new ones", status(5, 5))
		edit(c, kinds.DaemonSets, "default", "d", "", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "i:2" })
		c.until("all are new", func(r resource.Reader) bool {
			for _, p := range resource.List(r, kinds.Pods, "default") {
				if p.Spec.Containers[0].Image != "i:2" {
					return false
				}
			}
			return status(5, 5)(r)
		})
		if n := len(resource.List(c.Read(), kinds.ControllerRevisions, "default")); n != 2 {
			c.t.Errorf("%d revisions", n)
		}
		edit(c, kinds.DaemonSets, "default", "d", "", func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "sim-1"}
		})
		c.until("on one node", func(r resource.Reader) bool {
			return status(1, 1)(r) && len(resource.List(r, kinds.Pods, "default")) == 1
		})
		edit(c, kinds.Nodes, "", "sim-1", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		})
		c.until("nowhere", func(r resource.Reader) bool {
			return status(0, 0)(r) && len(resource.List(r, kinds.Pods, "default")) == 0
		})
	})
}

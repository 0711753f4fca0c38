package controllers_test

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// The event of a daemon pod that failed before it was bound names the node.
func TestFailedDaemonPod(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		labels := map[string]string{"app": "d"}
		full := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("9999")}}
		make1(c, kinds.DaemonSets, &appsv1.DaemonSet{ObjectMeta: meta("d"), Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Resources: full}}}}}})
		var pod string
		c.until("its pod", func(r resource.Reader) bool {
			for _, p := range resource.List(r, kinds.Pods, "default") {
				pod = p.Name
			}
			return pod != ""
		})
		edit(c, kinds.Pods, "default", pod, "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		c.until("the event", func(r resource.Reader) bool {
			for _, e := range resource.List(r, kinds.Events, "default") {
				if e.Reason == "FailedDaemonPod" {
					return !strings.Contains(e.Message, "node ,")
				}
			}
			return false
		})
	})
}

// Events that differ by their text only become one after a while.
func TestSimilarEventsAreCombined(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		ctx, stop := context.WithCancel(c.t.Context())
		defer stop()
		rec := client.NewRecorder(c, "tester", nil)
		go rec.Run(ctx)
		ns := resource.Get(c.Read(), kinds.Namespaces, "", "default")
		for i := range 15 {
			rec.Event(kinds.Namespaces, ns, corev1.EventTypeWarning, "Odd", "%c is odd", 'a'+i)
		}
		c.until("nine events of their own and one of six", func(r resource.Reader) bool {
			own, combined := 0, int32(0)
			for _, e := range resource.List(r, kinds.Events, "default") {
				switch {
				case e.Reason != "Odd":
				case strings.HasPrefix(e.Message, "(combined from similar events): "):
					if combined = e.Count; e.ReportingController != "" || !strings.HasSuffix(e.Message, "is odd") {
						t.Errorf("combined as %+v", e)
					}
				default:
					own++
				}
			}
			return own == 9 && combined == 6
		})
	})
}

package controllers_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// The pods of a StatefulSet follow its first ordinal: set, made more and less, and taken away.
func TestOrdinalsFollowTheirStart(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		l := map[string]string{"app": "s"}
		make1(c, kinds.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta("s"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}})
		for _, start := range []int32{0, 2, 3, 1, -1} {
			edit(c, kinds.StatefulSets, "default", "s", "", func(s *appsv1.StatefulSet) {
				if s.Spec.Ordinals = nil; start >= 0 {
					s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start}
				}
			})
			first := max(0, start)
			want := []string{fmt.Sprint("s-", first), fmt.Sprint("s-", first+1)}
			c.until(fmt.Sprint("two pods from ", start), func(r resource.Reader) bool {
				var names []string
				for _, p := range resource.List(r, kinds.Pods, "default") {
					names = append(names, p.Name)
				}
				slices.Sort(names)
				return slices.Equal(names, want) && ready(r, "app", "s") == 2
			})
		}
	})
}

// A pod of an index that has failed tells how often.
func TestFailuresOfAnIndexAreCounted(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		j := finishing("j", 3600)
		j.Spec.CompletionMode, j.Spec.BackoffLimitPerIndex = new(batchv1.IndexedCompletion), new(int32(1))
		j.Spec.Parallelism, j.Spec.Completions = new(int32(2)), new(int32(2))
		j.Spec.Template.Annotations[sim.Exit] = "1"
		make1(c, kinds.Jobs, j)
		c.until("both indexes have failed twice", func(r resource.Reader) bool {
			seen := map[string]int{}
			for _, p := range resource.List(r, kinds.Pods, "default") {
				if p.Status.Phase == corev1.PodFailed {
					seen[p.Annotations[batchv1.JobCompletionIndexAnnotation]+" after "+p.Annotations[batchv1.JobIndexFailureCountAnnotation]]++
				}
			}
			return len(seen) == 4 && seen["0 after 0"]+seen["0 after 1"]+seen["1 after 0"]+seen["1 after 1"] == 4
		})
	})
}

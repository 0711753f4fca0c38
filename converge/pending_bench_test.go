package converge_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
	kloop "github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// BenchmarkPending explains 10,000 pods that ask for a label that none of 1,000 nodes has.
func BenchmarkPending(b *testing.B) {
	for name, want := range map[string]map[string]string{"another key": {"disktype": "ssd"}, "another value": {"pool": "blu"}} {
		b.Run(name, func(b *testing.B) {
			set := kinds.NewSet()
			v := view.New(set)
			var nodes, pods []kloop.Object
			for i := range 1_000 {
				n := &corev1.Node{ObjectMeta: metaOf(fmt.Sprintf("node-%d", i))}
				n.Labels = map[string]string{"kubernetes.io/hostname": n.Name, "pool": fmt.Sprint("p", i%50), "disk": "ssd"}
				n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi")}
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
				nodes = append(nodes, n)
			}
			for i := range 10_000 {
				p := &corev1.Pod{ObjectMeta: metaOf(fmt.Sprintf("p-%d", i)), Spec: corev1.PodSpec{NodeSelector: want}}
				p.Namespace = "a"
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Message: "0/1000 nodes are available: 1000 node(s) didn't match Pod's node affinity/selector."}}
				pods = append(pods, p)
			}
			v.Replace(kinds.Nodes, 1, nodes)
			v.Replace(kinds.Pods, 1, pods)
			for b.Loop() {
				w := &converge.World{Read: v.Snapshot(), Kinds: set, Now: states.Noon, Rules: rules.All()}
				for _, p := range pods {
					if w.Explain(kinds.Pods, p) == nil {
						b.Fatal("it is well")
					}
				}
			}
		})
	}
}

func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Generation: 1,
		CreationTimestamp: metav1.NewTime(states.Noon.Add(-1e12))}
}

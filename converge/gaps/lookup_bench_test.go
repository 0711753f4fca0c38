package gaps

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// needy are a cache over 10,000 custom objects of 50 kinds that say nothing of themselves and name others, and over pods that need what is
// not there: a secret of one of those objects, or a service.
func needy(b *testing.B, pods int) (*Cache, resource.Kind, resource.Object) {
	b.Helper()
	set := kinds.NewSet()
	v := view.New(set)
	at := metav1.NewTime(time.Now().Add(-time.Hour))
	for n := range 50 {
		k := &resource.Def[*unstructured.Unstructured]{GVK: schema.GroupVersionKind{Group: fmt.Sprintf("g%d.example.com", n/5), Version: "v1",
			Kind: fmt.Sprintf("Kind%dSecret", n)}, Plural: fmt.Sprintf("kind%dsecrets", n), Namespaced: true, JSON: true}
		if err := set.Put(k); err != nil {
			b.Fatal(err)
		}
		var list []resource.Object
		for i := range 200 {
			name := fmt.Sprintf("x-%d-%d", n, i)
			list = append(list, &unstructured.Unstructured{Object: map[string]any{"apiVersion": k.GVK.GroupVersion().String(), "kind": k.GVK.Kind,
				"metadata": map[string]any{"name": name, "namespace": "default", "uid": name, "resourceVersion": "1",
					"creationTimestamp": at.UTC().Format(time.RFC3339)},
				"spec": map[string]any{"target": map[string]any{"name": "s-" + name}, "size": int64(i), "text": "one two three",
					"sourceRef": map[string]any{"kind": "ConfigMap", "name": "nowhere"}, "credentials": map[string]any{
						"passwordSecretRef": map[string]any{"name": "nothing", "key": "password"}}}}})
		}
		v.Replace(k, 1, list)
	}
	var list []resource.Object
	for i := range pods {
		name := fmt.Sprintf("p-%d", i)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: at,
			ResourceVersion: "1"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "app", Image: "x:1",
			Env: []corev1.EnvVar{{Name: "DB", Value: "postgres://user@db.default.svc:5432/app"}, {Name: "OTHER", Value: "some more words"}}}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
				Status: corev1.ConditionFalse, LastTransitionTime: at}}, ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}}}}
		c := &p.Status.ContainerStatuses[0]
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError",
			Message: fmt.Sprintf("secret %q not found", fmt.Sprintf("s-x-%d-%d", i%50, i%200))}
		if i%2 == 1 {
			c.State.Waiting, c.RestartCount = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}, 5
			c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1,
				Message: "dial tcp: lookup cache on 10.96.0.10:53: no such host"}
		}
		list = append(list, p)
	}
	v.Replace(kinds.Pods, 1, list)
	v.Replace(kinds.Nodes, 1, []resource.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ResourceVersion: "1"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}})
	return &Cache{Client: &client.Local{View: v, Set: set}, Store: wall{}, Rules: rules.All(), kick: make(chan struct{}, 1)},
		kinds.Pods, list[0]
}

// BenchmarkLookup is what it takes to look what others need up among 10,000 objects: for one pod, and for all gaps of 1,000.
func BenchmarkLookup(b *testing.B) {
	board, k, obj := needy(b, 1000)
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			w := board.World()
			if s := w.Explain(k, obj); s == nil {
				b.Fatal("nothing is told")
			}
		}
	})
	b.Run("custom", func(b *testing.B) {
		for b.Loop() {
			w := board.World()
			for _, k := range w.Kinds.All() {
				if !k.Info().Custom {
					continue
				}
				for obj := range w.Read.Each(k, "") {
					w.Rest(k, obj)
					break
				}
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			board.asked = time.Time{}
			if err := board.Refresh(b.Context(), convergence.Gaps); err != nil {
				b.Fatal(err)
			}
		}
	})
}

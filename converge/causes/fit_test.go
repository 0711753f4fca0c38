package causes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// TestSpare: a cordoned node would take a pod if there is room beside what still runs there, and what the pod must not be beside.
func TestSpare(t *testing.T) {
	const big = `spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]`
	const beside = `metadata: {labels: {app: web}}, spec: {containers: [{name: c}]`
	for _, tt := range []struct {
		name, there string
		unseen      bool
		takes       bool
	}{
		{"nothing is there", "", false, true},
		{"it is full", big + `, nodeName: n}, status: {phase: Running}`, false, false},
		{"what filled it has ended", big + `, nodeName: n}, status: {phase: Succeeded}`, false, true},
		{"another of its sort runs there", beside + `, nodeName: n}, status: {phase: Running}`, false, false},
		{"another of its sort failed there", beside + `, nodeName: n}, status: {phase: Failed}`, false, true},
		{"what is there is not to be seen", "", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := kinds.NewSet()
			v := view.New(set)
			node := &corev1.Node{}
			decode(t, node, `{metadata: {name: n}, spec: {unschedulable: true}, status: {allocatable: {cpu: "4", memory: 1Gi},
				conditions: [{type: Ready, status: "True"}]}}`)
			v.Replace(kinds.Nodes, 1, []resource.Object{node})
			var pods []resource.Object
			if tt.there != "" {
				there := &corev1.Pod{}
				decode(t, there, "{"+tt.there+"}")
				there.Name, there.Namespace = "there", "a"
				pods = append(pods, there)
			}
			v.Replace(kinds.Pods, 1, pods)
			w := &converge.World{Read: v.Snapshot(), Kinds: set}
			if tt.unseen {
				w.Unseen = map[schema.GroupResource]string{{Resource: "pods"}: "a"}
			}
			p := &corev1.Pod{}
			decode(t, p, `{metadata: {name: p, namespace: a, labels: {app: web}}, spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}],
				affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname,
				labelSelector: {matchLabels: {app: web}}}]}}}}`)
			if n := spare(w, p, false); (n != nil) != tt.takes {
				t.Errorf("it is taken by %v", n)
			}
		})
	}
}

func decode(t *testing.T, obj any, text string) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
}

package apply

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
)

// BenchmarkPatch patches a running pod in each way: the fields that the patch names, and the whole document.
func BenchmarkPatch(b *testing.B) {
	pod := decode(b, podJSON, &corev1.Pod{})
	if err := json.Unmarshal([]byte(podStatusJSON), &pod.Status); err != nil {
		b.Fatal(err)
	}
	if err := NewTracker().Update(Write{Kind: pods, GVK: pods.GVK, Manager: "m", Now: time.Unix(1, 0)}, nil, pod); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		kind  k8stypes.PatchType
		patch string
	}{
		{"strategic", k8stypes.StrategicMergePatchType, `{"metadata":{"uid":"u"},"status":{"$setElementOrder/conditions":[` +
			`{"type":"Initialized"},{"type":"Ready"},{"type":"ContainersReady"},{"type":"PodScheduled"}],` +
			`"conditions":[{"status":"False","type":"Ready"}],"phase":"Failed"}}`},
		{"merge", k8stypes.MergePatchType, `{"metadata":{"annotations":{"x":"y"}}}`},
		{"json", k8stypes.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/x","value":"y"}]`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if PatchFields(c.kind, []byte(c.patch), pod) == nil {
					b.Fatal("the whole document is patched")
				}
			}
		})
		b.Run(c.name+"/whole", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := patchWhole(c.kind, []byte(c.patch), pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

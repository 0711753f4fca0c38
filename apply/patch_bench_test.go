package apply

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func BenchmarkPatch(b *testing.B) {
	pod := decode(b, podJSON, &corev1.Pod{})
	if err := json.Unmarshal([]byte(podStatusJSON), &pod.Status); err != nil {
		b.Fatal(err)
	}
	doc, _ := json.Marshal(pod)
	patch := []byte(
		`{"metadata":{"uid":"u"},"status":{"$setElementOrder/conditions":[{"type":"Initialized"},{"type":"Ready"},{"type":"ContainersReady"},` +
			`{"type":"PodScheduled"}],"conditions":[{"status":"False","type":"Ready"}],"phase":"Failed"}}`)
	merge := []byte(`{"metadata":{"annotations":{"x":"y"}}}`)
	ops := []byte(`[{"op":"add","path":"/metadata/annotations/x","value":"y"}]`)
	for name, f := range map[string]func() ([]byte, error){
		"strategic": func() ([]byte, error) { return Strategic(doc, patch, pod) },
		"merge":     func() ([]byte, error) { return MergePatch(doc, merge, true) },
		"json":      func() ([]byte, error) { return JSONPatch(doc, ops) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

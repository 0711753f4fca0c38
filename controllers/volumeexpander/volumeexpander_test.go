package volumeexpander

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestWants(t *testing.T) {
	for _, tt := range []struct {
		name, claim string
		want        bool
	}{
		{"as it is", "spec: {resources: {requests: {storage: 1Gi}}}\nstatus: {phase: Bound, capacity: {storage: 1Gi}}", false},
		{"more", "spec: {resources: {requests: {storage: 2Gi}}}\nstatus: {phase: Bound, capacity: {storage: 1Gi}}", true},
		{"not bound", "spec: {resources: {requests: {storage: 2Gi}}}\nstatus: {phase: Pending}", false},
		{"more, and others say something of it", "spec: {resources: {requests: {storage: 2Gi}}}\nstatus: {phase: Bound, " +
			"capacity: {storage: 1Gi}, conditions: [{type: example.com/Seen, status: 'True'}]}", true},
		{"begun",
			"spec: {resources: {requests: {storage: 2Gi}}}\nstatus: {phase: Bound, capacity: {storage: 1Gi}, conditions: " +
				"[{type: Resizing, status: 'True'}]}", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.PersistentVolumeClaim{}
			if err := yaml.Unmarshal([]byte(tt.claim), p); err != nil {
				t.Fatal(err)
			}
			if got := wants(p); got != tt.want {
				t.Errorf("%s: %t", tt.name, got)
			}
		})
	}
}

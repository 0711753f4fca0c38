package ttl

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name         string
		nodes        int
		have         string // of all but one node, which has none
		want, change int
	}{
		{"few", 3, "0", 0, 1},
		{"grown a little: stays", 99, "0", 0, 1},
		{"grown out of it", 101, "0", 15, 101},
		{"shrunk a little: stays", 95, "15", 15, 1},
		{"shrunk out of it", 80, "15", 0, 80},
		{"leaps", 1200, "0", 60, 1200},
		{"huge", 100_000, "300", 300, 1},
		{"nonsense", 5, "soon", 0, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := make([]*corev1.Node, tt.nodes)
			for i := range nodes {
				nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(i)}}
				if i > 0 {
					nodes[i].Annotations = map[string]string{corev1.ObjectTTLAnnotationKey: tt.have}
				}
			}
			if got, wrong := plan(nodes); got != tt.want || len(wrong) != tt.change {
				t.Errorf("%s: %d s and %d to change, want %d and %d", tt.name, got, len(wrong), tt.want, tt.change)
			}
		})
	}
}

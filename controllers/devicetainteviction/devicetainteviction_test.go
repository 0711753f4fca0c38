package devicetainteviction

import (
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	seconds := func(n int64) *int64 { return &n }
	tolerate := func(key string, s *int64) resourcev1.DeviceToleration {
		return resourcev1.DeviceToleration{Key: key, Operator: resourcev1.DeviceTolerationOpExists, TolerationSeconds: s}
	}
	taint := func(key string, e resourcev1.DeviceTaintEffect) resourcev1.DeviceTaint {
		return resourcev1.DeviceTaint{Key: key, Effect: e, TimeAdded: &metav1.Time{Time: noon}}
	}
	for _, tt := range []struct {
		name       string
		taints     []resourcev1.DeviceTaint
		tolerances []resourcev1.DeviceToleration
		want       time.Duration // after noon; -1: never
	}{
		{"none", nil, nil, -1},
		{"another effect", []resourcev1.DeviceTaint{taint("a", "NoSchedule")}, nil, -1},
		{"at once", []resourcev1.DeviceTaint{taint("a", "NoExecute")}, nil, 0},
		{"tolerated", []resourcev1.DeviceTaint{taint("a", "NoExecute")}, []resourcev1.DeviceToleration{tolerate("a", nil)}, -1},
		{"for a while", []resourcev1.DeviceTaint{taint("a", "NoExecute")}, []resourcev1.DeviceToleration{tolerate("a", seconds(60)),
			tolerate("a", seconds(30))}, 30 * time.Second},
		{"one of two", []resourcev1.DeviceTaint{taint("a", "NoExecute"), taint("b", "NoExecute")},
			[]resourcev1.DeviceToleration{tolerate("a", nil)}, 0},
		{"the sooner", []resourcev1.DeviceTaint{taint("a", "NoExecute"), taint("b", "NoExecute")},
			[]resourcev1.DeviceToleration{tolerate("a", seconds(60)), tolerate("b", seconds(10))}, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &resourcev1.ResourceClaim{}
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "x", Tolerations: tt.tolerances}}}}
			at, _ := plan(c, func(driver, pool, device string) []resourcev1.DeviceTaint {
				if driver+pool+device != "dpx" {
					t.Errorf("asked for %s %s %s", driver, pool, device)
				}
				return tt.taints
			})
			if got := at.Sub(noon); at.IsZero() != (tt.want < 0) || !at.IsZero() && got != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, at, tt.want)
			}
		})
	}
}

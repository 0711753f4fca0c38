package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that is to go for another reason keeps the time since when it is to go.
func TestSetDisruption(t *testing.T) {
	then, now := time.Unix(1000, 0), time.Unix(2000, 0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	for _, tt := range []struct {
		reason string
		at     time.Time
		news   bool
		since  time.Time
	}{{"A", then, true, then}, {"A", now, false, then}, {"B", now, true, then}} {
		t.Run(tt.reason, func(t *testing.T) {
			if got := SetDisruption(p, tt.reason, "text", tt.at); got != tt.news {
				t.Errorf("%s at %v: news is %v", tt.reason, tt.at, got)
			}
			cond := p.Status.Conditions[0]
			if len(p.Status.Conditions) != 1 || cond.Reason != tt.reason ||
				!cond.LastTransitionTime.Time.Equal(tt.since) || cond.ObservedGeneration != 2 {
				t.Errorf("%s at %v: %+v", tt.reason, tt.at, p.Status.Conditions)
			}
		})
	}
}

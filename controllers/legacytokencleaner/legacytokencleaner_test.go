package legacytokencleaner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/core"
)

func TestPlan(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	long := now.AddDate(-3, 0, 0)
	for _, tt := range []struct {
		name            string
		used, invalid   string
		made, began     time.Time
		listed, mounted bool
		want            verdict
	}{
		{"never used", "", "", long, long, true, false, invalidate},
		{"used lately", "2026-05-01", "", long, long, true, false, keep},
		{"used long ago", "2024-05-01", "", long, long, true, false, invalidate},
		{"made lately", "", "", now.AddDate(0, -1, 0), long, true, false, keep},
		{"not tracked for a year", "", "", long, now.AddDate(0, -1, 0), true, false, keep},
		{"not tracked", "", "", long, time.Time{}, true, false, keep},
		{"made by a person", "", "", long, long, false, false, keep},
		{"in a pod", "", "", long, long, true, true, keep},
		{"invalid lately", "", "2026-05-01", long, long, true, false, keep},
		{"invalid for a year", "", "2025-05-01", long, long, true, false, remove},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(tt.made), Labels: map[string]string{}}}
			if tt.used != "" {
				s.Labels[core.LegacyTokenLastUsed] = tt.used
			}
			if tt.invalid != "" {
				s.Labels[core.LegacyTokenInvalidSince] = tt.invalid
			}
			if got := plan(s, tt.began, now, tt.listed, tt.mounted); got != tt.want {
				t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
			}
		})
	}
}

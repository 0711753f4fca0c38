package resourcequota

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
)

func pods(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: *apiresource.NewQuantity(n, apiresource.DecimalSI)}
}

func TestCredit(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	tests := []struct {
		what         string
		used, sum    int64
		freed        []string // objects that are gone; one may be told twice
		later        time.Duration
		use          int64
		waits, reset bool
	}{
		{what: "as it is", used: 3, sum: 3, use: 3},
		{what: "charged, not there yet", used: 3, sum: 2, use: 3, waits: true},
		{what: "charged, and never written", used: 3, sum: 2, later: unsure, use: 2},
		{what: "gone, and seen to go", used: 3, sum: 2, freed: []string{"a"}, use: 2},
		{what: "gone, and told twice", used: 4, sum: 2, freed: []string{"a", "a"}, use: 3, waits: true},
		{what: "one gone, one not there yet", used: 4, sum: 2, freed: []string{"a"}, use: 3, waits: true},
		{what: "more there than was charged", used: 1, sum: 2, use: 2},
		{what: "gone, though not from what was looked at", used: 3, sum: 3, freed: []string{"a"}, use: 3},
		{what: "another quota of that name", used: 4, sum: 3, freed: []string{"a"}, reset: true, use: 4, waits: true},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			l := &ledger{accounts: map[types.NamespacedName]*account{}}
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", UID: "1", ResourceVersion: "7"}}
			q.Spec.Hard, q.Status.Hard, q.Status.Used = pods(10), pods(10), pods(tt.used)
			for _, uid := range tt.freed {
				l.note(q, client.Change{Old: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}}, pods(1))
			}
			if tt.reset {
				q.UID = "2"
			}
			l.credit(q, pods(tt.sum), start)
			use, seen, wait := l.credit(q, pods(tt.sum), start.Add(tt.later))
			if got := use.Pods().Value(); got != tt.use || (wait > 0) != tt.waits {
				t.Errorf("use is %d, look again after %v", got, wait)
			}
			l.settled(q, seen)
			if got := len(l.account(q).freed); got != 0 {
				t.Errorf("%d changes are remembered", got)
			}
		})
	}
}

// A charge starts the wait anew.
func TestCreditWaitsForEachCharge(t *testing.T) {
	l := &ledger{accounts: map[types.NamespacedName]*account{}}
	now := time.Unix(1_000_000, 0)
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", UID: "1"}}
	q.Spec.Hard, q.Status.Hard = pods(10), pods(10)
	for i := range 5 {
		q.ResourceVersion, q.Status.Used = fmt.Sprint(i), pods(int64(3+i))
		if _, _, wait := l.credit(q, pods(2), now); wait != unsure {
			t.Errorf("charge %d: look again after %v", i, wait)
		}
		now = now.Add(unsure - time.Second)
	}
}

package replicaset

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kloop-dev/kloop/controllers/internal/replicas"
)

func TestStatus(t *testing.T) {
	now, rs := time.Unix(10000, 0), &appsv1.ReplicaSet{}
	rs.Generation = 7
	n := replicas.Counts{Replicas: 3, FullyLabeled: 2, Ready: 2, Available: 1, Terminating: 1}
	got := status(rs, n, nil, replicas.Todo{}, now)
	st := got.Status
	if st.Replicas != 3 || st.FullyLabeledReplicas != 2 || st.ReadyReplicas != 2 || st.AvailableReplicas != 1 ||
		*st.TerminatingReplicas != 1 || st.ObservedGeneration != 7 {
		t.Errorf("%+v", st)
	}
	if again := status(got, n, nil, replicas.Todo{}, now); again != nil {
		t.Errorf("nothing changed, and yet %+v", again.Status)
	}
	failed := status(got, n, errors.New("quota"), replicas.Todo{Create: 1}, now)
	if c := failed.Status.Conditions[0]; c.Reason != "FailedCreate" || c.Message != "quota" {
		t.Errorf("%+v", c)
	}
	if healed := status(failed, n, nil, replicas.Todo{}, now); len(healed.Status.Conditions) != 0 {
		t.Errorf("%+v", healed.Status.Conditions)
	}
}

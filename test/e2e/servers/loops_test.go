//go:build e2e

package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loopsTold waits until every server tells of a loop that it runs at the leader, and that so many servers could run it: also the
// servers whose own process has no loops know.
func loopsTold(t *testing.T, machines []*machine, replicas int32) {
	t.Helper()
	for _, m := range machines {
		eventually(t, "the loops are told by "+m.name, func(ctx context.Context) (bool, error) {
			data, err := m.client.RESTClient().Get().AbsPath("/apis/convergence.kloop.dev/v1alpha1/loops/deployment").DoRaw(ctx)
			if err != nil {
				return false, err
			}
			var l struct {
				Leader   string
				Replicas int32
				Done     int64
			}
			if err := json.Unmarshal(data, &l); err != nil {
				return false, err
			}
			lease, err := m.client.CoordinationV1().Leases("kube-system").Get(ctx, "kube-controller-manager", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if holder := lease.Spec.HolderIdentity; holder == nil || l.Leader != *holder || l.Replicas != replicas {
				return false, fmt.Errorf("told %+v", l)
			}
			return true, nil
		})
	}
}

package runtime

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestRuntimeThatHangs: a call that has no answer ends, but for those that take as long as others like.
func TestRuntimeThatHangs(t *testing.T) {
	for _, c := range []struct {
		name string
		req  any
		want time.Duration // 0: it does not end
	}{
		{"list", &cri.ListContainersRequest{}, 2 * time.Minute},
		{"sandbox", &cri.RunPodSandboxRequest{}, 4 * time.Minute},
		{"stop", &cri.StopContainerRequest{Timeout: 30}, 2*time.Minute + 30*time.Second},
		{"stop, negative", &cri.StopContainerRequest{Timeout: -1}, 2 * time.Minute},
		{"stop, for ever", &cri.StopContainerRequest{Timeout: math.MaxInt64}, 2*time.Minute + math.MaxInt32*time.Second},
		{"probe", &cri.ExecSyncRequest{Timeout: 5}, 2*time.Minute + 5*time.Second},
		{"hook", &cri.ExecSyncRequest{}, 0},
		{"pull", &cri.PullImageRequest{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 200*365*24*time.Hour)
				defer cancel()
				began := time.Now()
				err := (&Runtime{}).timed(ctx, "x", c.req, nil, nil,
					func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
						<-ctx.Done()
						return ctx.Err()
					})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				if took := time.Since(began); ctx.Err() == nil && took != c.want || ctx.Err() != nil && c.want != 0 {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

package podnetwork

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// A silence is an API server that does not answer.
type silence struct{ client.Client }

func (silence) Patch(ctx context.Context, _ resource.Kind, _, _ string, _ client.Patch) (resource.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSilentServer: what the Node is to say waits for no server: the kernel has to be looked after.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err := (&loop{cfg: Config{Self: silence{}, Node: "n"}}).patch(ctx, "status", map[string]any{})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

package etcd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
	"github.com/kloop-dev/kloop/store/storetest"
)

// The same suite over the network, against etcd as it comes.
func TestRemote(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return dial(t, etcd.Upstream(t, t.TempDir())) })
}

func TestDialNobody(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := etcd.Dial(ctx, etcd.Remote{Endpoints: []string{"http://127.0.0.1:1"}, Log: quiet(t)})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}

func dial(t *testing.T, endpoint string) *etcd.Store {
	t.Helper()
	s, err := etcd.Dial(t.Context(), etcd.Remote{Endpoints: []string{endpoint}, Log: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

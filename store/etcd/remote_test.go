package etcd_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
	"github.com/kloop-dev/kloop/store/storetest"
)

// The same suite over the network, against etcd as it comes.
func TestRemote(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return dial(t, serve(t)) })
}

func TestDialNobody(t *testing.T) {
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

// serve runs an etcd server that listens on the loopback.
func serve(t *testing.T) string {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = t.TempDir()
	c.LogLevel = "error"
	c.TickMs, c.ElectionMs = 10, 50
	c.UnsafeNoFsync = true
	c.ListenPeerUrls = nil
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd does not start")
	}
	return "http://" + e.Clients[0].Addr().String()
}

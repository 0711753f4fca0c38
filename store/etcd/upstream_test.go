package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/kloop-dev/kloop/store"
)

// upstream runs etcd as it comes, listening on the loopback, and returns its endpoint.
func upstream(t *testing.T, dir string) string {
	t.Helper()
	e := startUpstream(t, dir)
	t.Cleanup(e.Close)
	return "http://" + e.Clients[0].Addr().String()
}

func startUpstream(t *testing.T, dir string, change ...func(*embed.Config)) *embed.Etcd {
	t.Helper()
	c := embed.NewConfig()
	c.Dir = dir
	c.LogLevel = "fatal"
	c.TickMs, c.ElectionMs = 10, 50
	c.UnsafeNoFsync = true
	c.ListenPeerUrls = nil
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	for _, f := range change {
		f(c)
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(10 * time.Minute):
		t.Fatal("etcd does not start")
	}
	return e
}

// A data directory can be taken over from etcd and given back.
func TestTakeOverAndGiveBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	theirs := startUpstream(t, dir)
	for i := range 300 {
		if _, err := v3client.New(theirs.Server).Put(t.Context(), fmt.Sprintf("/registry/%03d", i), "theirs"); err != nil {
			t.Fatal(err)
		}
	}
	theirs.Close()
	for i := range 3 { // the second and third time from a directory that was ours before
		ours, err := Open(t.Context(), Config{Dir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		write(t, ours, store.Write{Key: fmt.Sprintf("/registry/ours-%d", i), Value: []byte("ours")})
		page, err := ours.List(t.Context(), "/registry/", "", 0, 0)
		if err != nil || len(page.KVs) != 301+i {
			t.Fatalf("%d keys, %v", len(page.KVs), err)
		}
		if err := ours.Close(); err != nil {
			t.Fatal(err)
		}
	}
	theirs = startUpstream(t, dir)
	defer theirs.Close()
	resp, err := v3client.New(theirs.Server).Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 303 {
		t.Fatalf("%d keys, %v", len(resp.Kvs), err)
	}
	if last := resp.Kvs[302]; !slices.Equal(last.Value, []byte("ours")) {
		t.Errorf("got %v", last)
	}
}

// A directory that we made starts under etcd too.
func TestGiveAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours := openWith(t, Config{Dir: dir})
	write(t, ours, store.Write{Key: "/registry/a", Value: []byte("ours")})
	ours.Close()
	theirs := startUpstream(t, dir)
	defer theirs.Close()
	resp, err := v3client.New(theirs.Server).Get(t.Context(), "/registry/a")
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
}

func TestDialWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startUpstream(t, dir, func(c *embed.Config) {
		c.ClientAutoTLS = true
		c.ListenClientUrls[0].Scheme = "https"
	})
	defer e.Close()
	r := Remote{
		Endpoints: []string{"https://" + e.Clients[0].Addr().String()},
		CAFile:    filepath.Join(dir, "fixtures", "client", "cert.pem"),
		Log:       slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	s, err := Dial(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write(t, s, store.Write{Key: "/a", Value: []byte("x")})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r.CAFile = ""
	if s, err := Dial(ctx, r); err == nil {
		s.Close()
		t.Error("trusts a server that no authority vouches for")
	}
}

package etcd

import (
	"net/http"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.uber.org/zap"

	"github.com/kloop-dev/kloop/internal/h2"
)

// clientServer answers etcd's own clients: gRPC, and /health and /version, in the clear. The function is called when it has ended.
func clientServer(server *etcdserver.EtcdServer, lg *zap.Logger) (*http.Server, func()) {
	rpc := v3rpc.Server(server, nil, nil)
	pages := http.NewServeMux()
	etcdhttp.HandleHealth(lg, pages, server)
	etcdhttp.HandleVersion(pages, server)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			rpc.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv, h2.Attach(srv, clientBounds).Close
}

var clientBounds = h2.Config{Streams: 1000, Header: 64 << 10, StreamWindow: 256 << 10, ConnWindow: 1 << 20, Ping: 30 * time.Second,
	Pong: 15 * time.Second, Idle: 3 * time.Minute, Write: time.Minute}

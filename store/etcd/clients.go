package etcd

import (
	"net/http"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.uber.org/zap"
)

// clientServer answers etcd's own clients: gRPC, and /health and /version, in the clear.
func clientServer(server *etcdserver.EtcdServer, lg *zap.Logger) *http.Server {
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
	return srv
}

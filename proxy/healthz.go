package proxy

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// HealthzPort is the port at which load balancers of clouds ask whether a node takes connections: kube-proxy's.
const HealthzPort = "10256"

// localPort answers programs of the machine that ask for the mode (/proxyMode), on the loopback alone: kube-proxy's port.
const localPort = "10249"

// deletedSoon is the taint by which the cluster autoscaler says that a node will be gone (KEP-3836).
const deletedSoon = "ToBeDeletedByClusterAutoscaler"

// A healthz answers for the proxy as a whole. /livez asks for the rules alone; /healthz also whether new connections should come, for a
// node that is about to go wants none while those that it has go on.
type healthz struct {
	cfg   *Config
	rules *atomic.Bool // the kernel's rules are as they should be
	ipvs  *atomic.Bool // virtual servers are in force
	since atomic.Int64 // when they last were, in nanoseconds
}

// serve listens until ctx ends, again and again as long as another program has the port.
func (h *healthz) serve(ctx context.Context, at string) {
	const patience = 5 * time.Second
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { h.answer(w, false) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { h.answer(w, true) })
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		mode := "nftables"
		if h.ipvs.Load() {
			mode = ModeIPVS
		}
		_, _ = io.WriteString(w, mode)
	})
	server := &http.Server{Handler: mux, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute, MaxHeaderBytes: 4096,
		ErrorLog: log.New(io.Discard, "", 0)}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	for said := false; ctx.Err() == nil; {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		if err == nil {
			err = server.Serve(l) // ends with Close
		}
		if ctx.Err() != nil {
			return
		}
		if !said {
			h.cfg.Log.Warn("answer health checks of the proxy", "address", at, "again", retry, "err", err)
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// answer is kube-proxy's.
func (h *healthz) answer(w http.ResponseWriter, node bool) {
	now, ok := time.Now(), h.rules.Load()
	if ok {
		h.since.Store(now.UnixNano())
	}
	eligible := h.eligible()
	body, _ := json.Marshal(map[string]any{"lastUpdated": time.Unix(0, h.since.Load()).String(), "currentTime": now.String(),
		"nodeEligible": eligible})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !ok || node && !eligible {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(body)
}

// eligible says that the node is to stay.
func (h *healthz) eligible() bool {
	n := resource.Get(h.cfg.Client.Read(), kinds.Nodes, "", h.cfg.Node)
	return n == nil || n.DeletionTimestamp == nil &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == deletedSoon })
}

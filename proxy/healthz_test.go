package proxy

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// readable is a client that reads what a test gives it.
type readable struct {
	fed
	world atomic.Pointer[world]
}

func (r *readable) Read() resource.Reader { return r.world.Load() }

// TestHealthz: the proxy is healthy while its rules are right; a node that is about to go wants no new connections, but lives.
func TestHealthz(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	at := l.Addr().String() // a port that is free
	must(t, l.Close())
	c := &readable{}
	see := func(n *corev1.Node) {
		w := newWorld()
		n.Name = "n"
		w.others[kinds.Nodes] = []resource.Object{n}
		c.world.Store(w)
	}
	see(&corev1.Node{})
	var rules, ipvs atomic.Bool
	h := &healthz{cfg: &Config{Client: c, Node: "n", Log: slog.New(slog.DiscardHandler)}, rules: &rules, ipvs: &ipvs}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { h.serve(ctx, at) })
	ask := func(path string) (code int, eligible bool) {
		t.Helper()
		r, err := http.Get("http://" + at + path)
		if err != nil {
			return 0, false
		}
		defer r.Body.Close()
		var body struct{ NodeEligible bool }
		must(t, json.NewDecoder(r.Body).Decode(&body))
		return r.StatusCode, body.NodeEligible
	}
	eventually.True(t, "nobody answers", func() bool { code, _ := ask("/livez"); return code != 0 })
	check := func(what string, livez, healthz int, eligible bool) {
		t.Helper()
		a, _ := ask("/livez")
		b, e := ask("/healthz")
		if a != livez || b != healthz || e != eligible {
			t.Errorf("%s: livez %d, healthz %d, eligible %v; want %d, %d, %v", what, a, b, e, livez, healthz, eligible)
		}
	}
	check("without rules", 503, 503, true)
	rules.Store(true)
	check("with rules", 200, 200, true)
	see(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: deletedSoon, Effect: corev1.TaintEffectNoSchedule}}}})
	check("soon deleted", 200, 503, false)
	now := metav1.Now()
	see(&corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}})
	check("deleted", 200, 503, false)
	for _, want := range []string{"nftables", "ipvs"} {
		r, err := http.Get("http://" + at + "/proxyMode")
		must(t, err)
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || string(text) != want {
			t.Errorf("mode %q, %v; want %s", text, err, want)
		}
		ipvs.Store(true)
	}
}

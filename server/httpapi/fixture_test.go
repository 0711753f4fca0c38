package httpapi_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/internal/profiles"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/kinds/pods"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/view"
)

// A few kinds beside those of the core group, for what the core group does not have.
var (
	deployments = &resource.Def[*appsv1.Deployment]{GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plural: "deployments",
		Short: []string{"deploy"}, Categories: []string{"all"}, Namespaced: true, Status: true, Generation: true,
		Quirks: resource.Quirks{Blank: `{"spec":{"replicas":0}}`},
		Scale: &resource.Scaled[*appsv1.Deployment]{
			Get: func(d *appsv1.Deployment) resource.Scale { return resource.Scale{Replicas: *d.Spec.Replicas} },
			Set: func(d *appsv1.Deployment, n int32) { d.Spec.Replicas = &n }}}
	scalers = &resource.Def[*autoscalingv2.HorizontalPodAutoscaler]{
		GVK: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Plural: "horizontalpodautoscalers",
		Short: []string{"hpa"}, Categories: []string{"all"}, Namespaced: true, Status: true,
		Columns: []resource.Column[*autoscalingv2.HorizontalPodAutoscaler]{ // of what the older version has no field for here
			resource.Col("Min", "integer", func(h *autoscalingv2.HorizontalPodAutoscaler) any { return h.Spec.MinReplicas })},
		Also: []resource.Version[*autoscalingv2.HorizontalPodAutoscaler]{{
			GVK: autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
			New: func() resource.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
			From: func(h *autoscalingv2.HorizontalPodAutoscaler) resource.Object {
				return &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta,
					Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: h.Spec.MaxReplicas}}
			},
			To: func(o resource.Object) *autoscalingv2.HorizontalPodAutoscaler {
				h := o.(*autoscalingv1.HorizontalPodAutoscaler)
				return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta,
					Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: h.Spec.MaxReplicas}}
			}}}}
)

// everyone is authenticated by the header Test-User and may do what allow says; system:admin may do all.
type everyone struct {
	allow func(*auth.Attributes) bool
}

func (everyone) Authenticate(r *http.Request) (*auth.User, bool, error) {
	switch name := r.Header.Get("Test-User"); name {
	case "":
		return &auth.User{Name: "system:admin", Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}, true, nil
	case "nobody":
		return nil, false, nil
	case "liar":
		return nil, false, errors.New("bad signature")
	default:
		return &auth.User{Name: name, Groups: []string{auth.GroupAuthenticated}}, true, nil
	}
}

func (z everyone) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.User.In(auth.GroupMasters) || z.allow != nil && z.allow(a) {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

// world is a server over a store in memory with its HTTP surface.
type world struct {
	t       testing.TB
	ops     *server.Server
	view    *view.View
	kinds   *resource.Set
	handler *httpapi.Handler
}

func newWorld(t testing.TB, change ...func(*httpapi.Config)) *world {
	t.Helper()
	return newWorldOf(t, view.Config{}, change...)
}

// newWorldOf is newWorld with other bounds of what the view keeps.
func newWorldOf(t testing.TB, bounds view.Config, change ...func(*httpapi.Config)) *world {
	t.Helper()
	set := resource.NewSet(slices.Concat(core.All(), pods.All(), []resource.Kind{deployments, scalers, apiregistration.APIServices,
		discovery.EndpointSlices, batch.Jobs})...)
	c := testcluster.Start(t, func(c *testcluster.Config) {
		c.Kinds, c.View, c.Authorize = set, view.NewWith(set, bounds), everyone{}
	})
	ops, v := c.Server, c.View
	cfg := httpapi.Config{Streams: stream.New, Evictions: workload.Eviction, Profiles: profiles.Serve, Ops: ops, Kinds: set,
		Authn: everyone{}, Authz: everyone{}}
	for _, f := range change {
		f(&cfg)
	}
	if a, ok := cfg.Delegate.(*aggregator.Aggregator); ok {
		a.Kinds, a.Read = set, func() resource.Reader { return v.Snapshot() }
	}
	w := &world{t: t, ops: ops, view: v, kinds: set, handler: httpapi.New(cfg)}
	w.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"ns"}}`, 201)
	return w
}

// reply is an answer with its body read.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

func (w *world) do(method, path, body string, headers ...string) reply {
	w.t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.send(r, body)
}

func (w *world) send(r *http.Request, body string) reply {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return reply{rec.Code, rec.Header(), rec.Body.Bytes()}
}

func (w *world) must(method, path, body string, code int, headers ...string) reply {
	w.t.Helper()
	got := w.do(method, path, body, headers...)
	if got.code != code {
		w.t.Fatalf("%s %s: %d, want %d: %s", method, path, got.code, code, got.body)
	}
	return got
}

func (r reply) status(t testing.TB) metav1.Status {
	t.Helper()
	var st metav1.Status
	if err := json.Unmarshal(r.body, &st); err != nil {
		t.Fatalf("not a Status: %v: %s", err, r.body)
	}
	return st
}

// tree is the body as plain JSON values.
func (r reply) tree(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(r.body, &m); err != nil {
		t.Fatalf("not JSON: %v: %.300s", err, r.body)
	}
	return m
}

func (w *world) configMap(name, data string) {
	w.t.Helper()
	w.must("POST", "/api/v1/namespaces/ns/configmaps", `{"metadata":{"name":"`+name+`"},"data":{"k":"`+data+`"}}`, 201)
}

func at(v any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			l, _ := v.([]any)
			if key >= len(l) {
				return nil
			}
			v = l[key]
		}
	}
	return v
}

// front serves the handler over TLS as a cluster does, and returns its address.
func (w *world) front() string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	conf := &tls.Config{Certificates: []tls.Certificate{certificate()}}
	go func() { served <- w.handler.Serve(ctx, l, conf) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
	return "https://" + l.Addr().String()
}

// transport speaks HTTP/2 or HTTP/1.1 to a front.
func transport(t testing.TB, http2 bool) *http.Transport {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// serve runs the handler on a loopback address.
func (w *world) serve() *httptest.Server {
	srv := httptest.NewServer(w.handler)
	w.t.Cleanup(func() {
		w.handler.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv
}

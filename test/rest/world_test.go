package rest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/bootstrap"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/controllers/apiservice"
	"github.com/kloop-dev/kloop/controllers/definition"
	"github.com/kloop-dev/kloop/controllers/flowschema"
	"github.com/kloop-dev/kloop/controllers/horizontalpodautoscaler"
	"github.com/kloop-dev/kloop/controllers/nodeipam"
	"github.com/kloop-dev/kloop/crd"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/pipe"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/scheduler"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/sim"
)

var quiet = slog.New(slog.DiscardHandler)

var admin = &auth.User{Name: "admin", Groups: []string{auth.GroupMasters, auth.GroupAuthenticated}}

// everybody is an administrator.
type everybody struct{}

func (everybody) Authenticate(*http.Request) (*auth.User, bool, error) { return admin, true, nil }
func (everybody) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	return auth.Allow, "", nil
}

// A world is a whole control plane in a bubble of simulated time: the API server on a pipe, every loop, the scheduler, simulated nodes.
type world struct {
	*client.Local
	t      *testing.T
	ctx    context.Context
	api    *testcluster.Cluster
	reg    *crd.Registry
	cfg    *rest.Config
	beside *rest.Config // of loops that run elsewhere
	dyn    dynamic.Interface
	meter  *meter
	keeper *keeper
	loops  *loop.Watchers
	wg     sync.WaitGroup
	stop   context.CancelFunc // ends the loops that run now
}

// open starts the API server. The loops are for the caller to start.
func open(t *testing.T, on *features.Set) *world {
	set := kinds.SetFor(on, nil)
	w := &world{t: t, meter: newMeter(), loops: &loop.Watchers{}}
	var stop context.CancelFunc
	w.ctx, stop = context.WithCancel(context.Background())
	w.meter.full = stop
	fields, docs := apply.NewTracker(), openapi.New(set)
	w.api = testcluster.Start(t, func(c *testcluster.Config) {
		c.Kinds, c.Fields, c.Authorize = set, fields, everybody{}
		c.Admission = plugins.Default(admission.Config{Authorize: everybody{}, Kinds: set})
	})
	w.Local = w.api.Local
	w.reg = &crd.Registry{Kinds: set, View: w.View, Fields: fields, Docs: docs}
	for _, obj := range bootstrap.Objects(bootstrap.Config{Features: on, ServiceCIDRs: []string{"10.96.0.0/16"}}) {
		k, ok := set.Kind(obj.GetObjectKind().GroupVersionKind())
		if !ok {
			continue // of another version
		}
		if _, err := w.Create(w.ctx, k, obj); err != nil {
			t.Fatal(err)
		}
	}
	lis := pipe.Listen()
	handler := httpapi.New(httpapi.Config{Streams: stream.New, Evictions: workload.Eviction, Ops: w.api.Server, Kinds: set,
		Authn: everybody{}, Authz: everybody{}, OpenAPI: docs})
	w.wg.Go(func() { _ = handler.Serve(w.ctx, lis, nil) })
	tr := &http.Transport{DialContext: lis.Dial, DisableCompression: true}
	w.cfg = &rest.Config{Host: "http://cluster", Transport: tr, QPS: -1}
	w.beside = &rest.Config{Host: "http://cluster", Dial: lis.Dial, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: authority(t)},
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return wire{next, w.meter} }}
	dyn, err := dynamic.NewForConfig(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.dyn = dyn
	t.Cleanup(func() {
		stop()
		_ = lis.Close()
		tr.CloseIdleConnections()
		w.wg.Wait()
	})
	return w
}

// start starts all loops cold, in the server's process.
func (w *world) start() {
	ctx, wg := w.begin()
	events := client.NewRecorder(w, "kloop", nil)
	wg.Go(func() { events.Run(ctx) })
	for _, e := range w.table() {
		wg.Go(func() { w.run(ctx, e.Loop, events.For(e.Component, "")) })
	}
}

// startBeside starts them as kloop controllers does, over HTTP.
func (w *world) startBeside() {
	ctx, wg := w.begin()
	l := cluster.Loops{Rest: w.beside, Log: quiet, Config: cluster.Config{Kit: whole.Kit(), VolumeSnapshots: true},
		Election: client.Election{
			Namespace: "kube-system", Name: "kube-controller-manager", Identity: "test", Duration: time.Minute, Renew: 10 * time.Second}}
	wg.Go(func() {
		if err := cluster.RunLoops(ctx, l); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	})
}

// begin starts what every server runs for itself. stop ends all that has begun since.
func (w *world) begin() (context.Context, *sync.WaitGroup) {
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	w.stop = func() { stop(); wg.Wait() }
	for _, l := range []loop.Loop{definition.Controller(w.reg), flowschema.Controller,
		apiservice.Controller(apiservice.Config{Kinds: kinds.SetFor(w.Set.Features(), nil)})} {
		wg.Go(func() { w.run(ctx, l, nil) })
	}
	return ctx, &wg
}

// table are the loops of a cluster.
func (w *world) table() []controllers.Entry {
	raw, err := client.Raw(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	list := controllers.All(controllers.Config{Kinds: w.Set, RootCA: []byte("ca"), DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Metrics: horizontalpodautoscaler.REST(raw), LocalStorage: true, Snapshots: true,
		Pods: []nodeipam.Pool{{Range: netip.MustParsePrefix("10.244.0.0/16"), Bits: 24}}})
	list = append(list, controllers.Entry{Loop: scheduler.New(scheduler.Config{}), Component: "default-scheduler"})
	for _, l := range sim.Loops() {
		list = append(list, controllers.Entry{Loop: l, Component: "kubelet"})
	}
	return list
}

func (w *world) run(ctx context.Context, l loop.Loop, events *client.Recorder) {
	env := loop.Env{Client: &counted{Client: w.Local, who: l.LoopName(), meter: w.meter}, Log: quiet, Events: events, Watch: w.loops}
	if err := l.Run(ctx, env); err != nil {
		w.t.Errorf("%s: %v", l.LoopName(), err)
	}
}

// authority is the certificate of an authority that nobody asks.
func authority(t *testing.T) []byte {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

package probe

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func portIn(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func probed(c *corev1.Container, p *corev1.Probe) *prober {
	return &prober{watched: &watched{spec: c, set: NewSet(nil, nil)}, kind: liveness, probe: p}
}

// site answers the probes of the tests.
func site(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/headers":
		fmt.Fprintf(w, "%s|%s|%s", r.UserAgent(), r.Header.Get("Accept"), r.Host)
		if r.UserAgent() != agent("probe") || r.Header.Get("Accept") != "*/*" || r.Host != "my.host" || r.Header.Get("X-A") != "1" {
			w.WriteHeader(http.StatusTeapot)
		}
	case "/own":
		if r.UserAgent() != "mine" || r.Header.Values("Accept") != nil {
			w.WriteHeader(http.StatusTeapot)
		}
	case "/query":
		if r.URL.RawQuery != "a=b&c" {
			w.WriteHeader(http.StatusTeapot)
		}
	case "/here":
		http.Redirect(w, r, "/ok", http.StatusFound)
	case "/away":
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case "/broken":
		http.Redirect(w, r, "/500", http.StatusFound)
	case "/500":
		w.WriteHeader(http.StatusInternalServerError)
	case "/304":
		w.WriteHeader(http.StatusNotModified)
	case "/slow":
		<-r.Context().Done()
	case "/ok", "/":
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestHTTP(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(site))
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(site))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it is spoken to in plain HTTP
	secure.StartTLS()
	defer secure.Close()
	c := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(portIn(t, plain.Listener.Addr().String()))}}}
	named, tls := intstr.FromString("web"), intstr.FromInt(portIn(t, secure.Listener.Addr().String()))
	h := func(kv ...string) (list []corev1.HTTPHeader) {
		for p := range slices.Chunk(kv, 2) {
			list = append(list, corev1.HTTPHeader{Name: p[0], Value: p[1]})
		}
		return list
	}
	for _, tt := range []struct {
		get  corev1.HTTPGetAction
		want answer
		text string
	}{
		{corev1.HTTPGetAction{Path: "/ok", Port: named}, passed, ""},
		{corev1.HTTPGetAction{Port: named}, passed, ""},
		{corev1.HTTPGetAction{Path: "/ok", Port: tls, Scheme: corev1.URISchemeHTTPS}, passed, ""},
		{corev1.HTTPGetAction{Path: "/ok", Port: tls}, failed, "statuscode: 400"},
		{corev1.HTTPGetAction{Path: "/query?a=b&c", Port: named}, passed, ""},
		{corev1.HTTPGetAction{Path: "/headers", Port: named, HTTPHeaders: h("Host", "my.host", "X-A", "1")}, passed, ""},
		{corev1.HTTPGetAction{Path: "/own", Port: named, HTTPHeaders: h("User-Agent", "mine", "Accept", "")}, passed, ""},
		{corev1.HTTPGetAction{Path: "/here", Port: named}, passed, ""},
		{corev1.HTTPGetAction{Path: "/away", Port: named}, passed, "Probe terminated redirects"},
		{corev1.HTTPGetAction{Path: "/304", Port: named}, passed, "Probe terminated redirects"},
		{corev1.HTTPGetAction{Path: "/loop", Port: named}, failed, "stopped after 10 redirects"},
		{corev1.HTTPGetAction{Path: "/broken", Port: named}, failed, "HTTP probe failed with statuscode: 500"},
		{corev1.HTTPGetAction{Path: "/none", Port: named}, failed, "HTTP probe failed with statuscode: 404"},
		{corev1.HTTPGetAction{Path: "/ok", Port: intstr.FromString("other")}, unknown, `port "other" not found`},
		{corev1.HTTPGetAction{Path: "/slow", Port: named}, failed, "Client.Timeout exceeded"},
		{corev1.HTTPGetAction{Path: "/ok", Port: named, Host: "127.0.0.2"}, failed, "connection refused"},
	} {
		p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &tt.get}, TimeoutSeconds: 600}
		if tt.get.Path == "/slow" {
			p.TimeoutSeconds = 1
		}
		a, text := probed(c, p).ask(t.Context(), &corev1.Pod{}, "127.0.0.1")
		if a != tt.want || !strings.Contains(text, tt.text) || tt.text == "" && text != "" {
			t.Errorf("%s: %v %q, want %v %q", tt.get.Path, a, text, tt.want, tt.text)
		}
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(portIn(t,
		l.Addr().String()))}}, TimeoutSeconds: 600}
	if a, text := probed(&corev1.Container{}, p).ask(t.Context(), &corev1.Pod{}, "127.0.0.1"); a != passed || text != "" {
		t.Error(a, text)
	}
	defer l.Close()
	if a, text := probed(&corev1.Container{}, p).ask(t.Context(), &corev1.Pod{}, "127.0.0.2"); a != failed ||
		!strings.Contains(text, "refused") {
		t.Error(a, text)
	}
}

func TestGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, state := grpc.NewServer(), health.NewServer()
	healthv1.RegisterHealthServer(srv, state)
	state.SetServingStatus("down", healthv1.HealthCheckResponse_NOT_SERVING)
	go srv.Serve(l)
	defer srv.Stop()
	none, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bare := grpc.NewServer()
	go bare.Serve(none)
	defer bare.Stop()
	for _, tt := range []struct {
		addr, service string
		want          answer
		text          string
	}{
		{l.Addr().String(), "", passed, ""}, {l.Addr().String(), "down", failed, `service unhealthy (responded with "NOT_SERVING")`},
		{l.Addr().String(), "stranger", failed, "health rpc probe failed"}, {none.Addr().String(), "", failed,
			"does not implement the grpc health protocol"},
		{"127.0.0.2:" + strconv.Itoa(portIn(t, l.Addr().String())), "", failed, "failed to connect service"},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(portIn(t, tt.addr)),
				Service: &tt.service}}, TimeoutSeconds: 600}
			ip, _, _ := net.SplitHostPort(tt.addr)
			if a, text := probed(&corev1.Container{}, p).ask(t.Context(), &corev1.Pod{}, ip); a != tt.want || !strings.Contains(text, tt.text) {
				t.Errorf("%s %q: %v %q, want %v %q", tt.addr, tt.service, a, text, tt.want, tt.text)
			}
		})
	}
}

// TestGone: a probe that is under way ends with its container.
func TestGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(portIn(t,
		l.Addr().String()))}}, TimeoutSeconds: 600}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	probed(&corev1.Container{}, p).ask(ctx, &corev1.Pod{}, "127.0.0.1")
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestArgs(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "F", ValueFrom: &corev1.EnvVarSource{}}}
	got := staticArgs([]string{"x$(A)$(A)", "$$(A)", "$(B)", "$(F)", "$", "a$b$(", "$()"}, env)
	if want := []string{"x11", "$(A)", "$(B)", "$(F)", "$", "a$b$(", "$()"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/node/runtime"
)

// stub is a runtime that knows one container.
type stub struct {
	cri.RuntimeServiceClient
}

func (stub) ContainerStatus(context.Context, *cri.ContainerStatusRequest, ...grpc.CallOption) (*cri.ContainerStatusResponse, error) {
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{State: cri.ContainerState_CONTAINER_EXITED}}, nil
}

func (stub) ExecSync(_ context.Context, r *cri.ExecSyncRequest, _ ...grpc.CallOption) (*cri.ExecSyncResponse, error) {
	return &cri.ExecSyncResponse{Stdout: []byte(r.ContainerId + ": " + strings.Join(r.Cmd, " "))}, nil
}

// node is the API of a node with the pod ns/web, and a way to call it as somebody.
type node struct {
	url   string
	roots *x509.CertPool
	ca    *pki.PKI
}

func serveNode(t *testing.T, rt *runtime.Runtime, logPath, id string) *node {
	t.Helper()
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "waiting"}}}}
	h := New(Config{Runtime: rt, ClientCA: keys.CA.Pool(), Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} },
		Container: func(_, _, name string, previous bool) (string, string, bool, error) {
			switch {
			case previous:
				return "", "", false, errors.New(`previous terminated container "c" in pod "web" not found`)
			case name != "c":
				return "", "", false, errors.New(`container "waiting" in pod "web" is waiting to start: ContainerCreating`)
			}
			return id, logPath, true, nil
		}})
	cert, key, err := keys.NodeServing("n1", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, h, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, keys.CA.Pool())
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &node{url: "https://" + l.Addr().String(), roots: keys.CA.Pool(), ca: keys}
}

func (n *node) transport(t *testing.T, cert, key []byte) *http.Transport {
	t.Helper()
	conf := &tls.Config{RootCAs: n.roots}
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	tr := &http.Transport{TLSClientConfig: conf}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// server is the transport of an API server.
func (n *node) server(t *testing.T) *http.Transport {
	t.Helper()
	cert, key, err := n.ca.KubeletClient()
	if err != nil {
		t.Fatal(err)
	}
	return n.transport(t, cert, key)
}

func call(t *testing.T, tr http.RoundTripper, method, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := http.Client{Transport: tr, Timeout: patience}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// What the agent tells of itself, under the kubelet's names.
func TestOwnMetrics(t *testing.T) {
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "id1")
	code, body := call(t, n.server(t), "GET", n.url+"/metrics")
	for _, want := range []string{"go_goroutines ", "process_start_time_seconds ", "kubelet_running_pods ", `kubelet_running_containers{container_state="running"} `} {
		if code != http.StatusOK || !strings.Contains(body, "\n"+want) {
			t.Errorf("%d: no %s", code, want)
		}
	}
}

func TestCallers(t *testing.T) {
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "id1")
	stranger, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	issue := func(p *pki.PKI, user string, groups ...string) *http.Transport {
		cert, key, err := p.Issue(user, groups, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n.transport(t, cert, key)
	}
	serving := func() *http.Transport {
		cert, key, err := n.ca.CA.Issue(pki.Leaf{User: serverUser, Hosts: []string{"x"}, Server: true}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return n.transport(t, cert, key)
	}
	for _, tt := range []struct {
		who  string
		tr   *http.Transport
		code int
	}{
		{"the API server", n.server(t), 200}, {"a master", issue(n.ca, "root", "system:masters"), 200},
		{"a node", issue(n.ca, "system:node:n2", "system:nodes"), 403}, {"a user", issue(n.ca, "ann"), 403},
		{"nobody", n.transport(t, nil, nil), 401}, {"another cluster's server", issue(stranger, serverUser), 401},
		{"another cluster's master", issue(stranger, "root", "system:masters"), 401}, {"a server's certificate", serving(), 401},
	} {
		for _, path := range []string{"/pods", "/healthz", "/exec/ns/web/c", "/none"} {
			want := tt.code
			if path == "/exec/ns/web/c" && want == 200 {
				want = 400 // no streams asked for
			} else if path == "/none" && want == 200 {
				want = 404
			}
			if code, body := call(t, tt.tr, "GET", n.url+path); code != want {
				t.Errorf("%s gets %s: %d %s, want %d", tt.who, path, code, body, want)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, sampleLog(t, sample), "id1")
	tr := n.server(t)
	for _, tt := range []struct {
		path string
		code int
		body string // a part of it
	}{
		{"GET /containerLogs/ns/web/c?tailLines=1", 200, "four five\n"},
		{"GET /containerLogs/ns/web/c?tailLines=2&follow=true", 200, "\nfour five\n"},
		{"GET /containerLogs/ns/web/c?tailLines=no", 400, "tailLines"},
		{"GET /containerLogs/ns/web/c?previous=true", 400, `previous terminated container "c" in pod "web" not found`},
		{"GET /containerLogs/ns/web/waiting", 400, "is waiting to start: ContainerCreating"},
		{"GET /containerLogs/ns/web/other", 404, `container "other" not found in pod "web"`},
		{"GET /containerLogs/ns/gone/c", 404, `pod "gone" not found`},
		{"POST /exec/ns/web/c?input=1&tty=1&error=1", 400, "tty and stderr"},
		{"POST /exec/ns/gone/c?input=1", 404, "not found"},
		{"POST /exec/ns/web/u2/c?input=1", 404, "not found"},
		{"POST /portForward/ns/web?port=x", 400, "invalid port"},
		{"POST /run/ns/web/u1/c?cmd=ls&cmd=-l", 200, "id1: ls -l"},
		{"POST /run/ns/web/c", 400, "cmd"},
		{"POST /checkpoint/ns/web/c", 501, "not supported"},
		{"GET /pods", 200, `"kind":"PodList"`}, {"GET /pods", 200, `"uid":"u1"`},
		{"GET /healthz", 200, "ok"},
	} {
		method, path, _ := strings.Cut(tt.path, " ")
		if code, body := call(t, tr, method, n.url+path); code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s: %d %q, want %d %q", tt.path, code, body, tt.code, tt.body)
		}
	}
}

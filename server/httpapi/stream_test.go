package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	agentforward "k8s.io/cri-streaming/pkg/streaming/portforward"
	agentcommand "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	utilexec "k8s.io/utils/exec"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
)

// agent is a node agent whose containers know the commands cat, fail, size, idle and flood, and whose pods echo on port 80.
type agent struct {
	*httptest.Server
	asked chan string
	dial  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: as usual
}

func newAgent(t testing.TB) *agent {
	a := &agent{asked: make(chan string, 10)}
	a.Server = httptest.NewTLSServer(a.mux(time.Minute))
	t.Cleanup(a.Close)
	return a
}

// mux answers as an agent does; its streams may be idle for a while.
func (a *agent) mux(idle time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/ns/p/c", a.logs)
	mux.HandleFunc("/exec/ns/p/c", func(w http.ResponseWriter, r *http.Request) {
		opts, err := agentcommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		agentcommand.ServeExec(w, r, a, "p", "", "c", r.URL.Query()["command"], opts, idle, time.Minute, []string{"v4.channel.k8s.io"})
	})
	mux.HandleFunc("/portForward/ns/p", func(w http.ResponseWriter, r *http.Request) {
		agentforward.ServePortForward(w, r, a, "p", "", &agentforward.V4Options{}, idle, time.Minute, []string{"portforward.k8s.io"})
	})
	mux.HandleFunc("/stats/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "stats of "+r.URL.Path) })
	return mux
}

// Endpoint implements stream.Nodes.
func (a *agent) Endpoint(_ context.Context, node string) (stream.Endpoint, error) {
	if node != "n1" {
		return stream.Endpoint{}, apierrors.NewServiceUnavailable("no such node")
	}
	tr := a.Client().Transport.(*http.Transport).Clone()
	tr.ForceAttemptHTTP2 = false
	if a.dial != nil {
		tr.DialContext = a.dial
	} else {
		tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return stream.Endpoint{URL: a.URL, Transport: tr}, nil
}

func (a *agent) logs(w http.ResponseWriter, r *http.Request) {
	a.asked <- r.URL.RawQuery
	if r.URL.Query().Get("previous") != "" {
		http.Error(w, "previous terminated container not found", http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, "line 1\n")
	if r.URL.Query().Get("follow") != "" {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// ExecInContainer implements the agent's executor.
func (a *agent) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, in io.Reader, out, errs io.WriteCloser, _ bool,
	size <-chan agentcommand.TerminalSize, _ time.Duration) error {
	switch cmd[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "idle":
		time.Sleep(4 * time.Hour)
		_, err := io.WriteString(out, "awake")
		return err
	case "flood":
		for {
			if _, err := out.Write(make([]byte, 32<<10)); err != nil {
				return err
			}
		}
	case "size":
		s := <-size
		fmt.Fprintf(out, "%dx%d", s.Width, s.Height)
		return nil
	}
	fmt.Fprint(errs, "failing")
	return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code 3"), Code: 3}
}

// PortForward implements the agent's forwarder.
func (a *agent) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(stream, b); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stream, "%d says %s", port, b)
	return err
}

func podWorld(t testing.TB) (*world, *agent) {
	a := newAgent(t)
	w := newWorld(t, func(c *httpapi.Config) { c.Nodes = a })
	w.runsPods()
	return w, a
}

// runsPods gives the world a node and two pods.
func (w *world) runsPods() {
	w.must("POST", "/api/v1/nodes", `{"metadata":{"name":"n1"}}`, 201)
	w.must("POST", "/api/v1/namespaces/ns/pods",
		`{"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`, 201)
	w.must("POST", "/api/v1/namespaces/ns/pods",
		`{"metadata":{"name":"two"},"spec":{"containers":[{"name":"c","image":"i"},`+
			`{"name":"d","image":"i"}],"initContainers":[{"name":"e","image":"i"}]}}`, 201)
}

func TestLogs(t *testing.T) {
	w, a := podWorld(t)
	const path = "/api/v1/namespaces/ns/pods/p/log"
	got := w.must("GET", path+"?tailLines=3&timestamps=true&sinceSeconds=5", "", 200, "Accept", "application/json, */*")
	if string(got.body) != "line 1\n" || got.header.Get("Content-Type") != "text/plain" {
		t.Errorf("log %q %v", got.body, got.header)
	}
	if q := <-a.asked; q != "sinceSeconds=5&tailLines=3&timestamps=true" {
		t.Errorf("the agent was asked %q", q)
	}
	for _, tt := range []struct {
		path    string
		code    int
		message string
	}{
		{path + "?previous=true", 400, "previous terminated container not found\n"},
		{path + "?container=x", 400, "container x is not valid for pod p"},
		{path + "?tailLines=x", 400, ""},
		{path + "?tailLines=-1", 422, ""},
		{path + "?limitBytes=0", 422, ""},
		{"/api/v1/namespaces/ns/pods/two/log", 400,
			"a container name must be specified for pod two, choose one of: [c d] or one of the init containers: [e]"},
		{"/api/v1/namespaces/ns/pods/none/log", 404, `pods "none" not found`},
	} {
		t.Run(tt.path, func(t *testing.T) {
			if st := w.must("GET", tt.path, "", tt.code).status(t); tt.message != "" && st.Message != tt.message {
				t.Errorf("%s: %q", tt.path, st.Message)
			}
		})
	}
	if got := w.must("GET", "/api/v1/namespaces/ns/pods/two/log?container=d", "", 204); len(got.body) != 0 {
		t.Errorf("log of a pod without node: %q", got.body)
	}
}

func TestLogsFollow(t *testing.T) {
	w, _ := podWorld(t)
	ctx, cancel := context.WithCancel(limited(t))
	req, err := http.NewRequestWithContext(ctx, "GET", w.serve().URL+"/api/v1/namespaces/ns/pods/p/log?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 7)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "line 1\n" {
		t.Errorf("read %q, error %v", b, err)
	}
	cancel()
	resp.Body.Close()
}

func TestLogsOverWebSocket(t *testing.T) {
	w, _ := podWorld(t)
	d := &websocket.Dialer{Subprotocols: []string{"binary.k8s.io"}}
	conn, _, err := d.DialContext(limited(t), strings.Replace(w.serve().URL, "http", "ws", 1)+"/api/v1/namespaces/ns/pods/p/log", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got []byte
	for {
		_, b, err := conn.ReadMessage()
		if err != nil {
			break
		}
		got = append(got, b...)
	}
	if string(got) != "line 1\n" {
		t.Errorf("read %q", got)
	}
}

// executors are upstream's clients for both protocols.
func executors(t testing.TB, base, query string) map[string]remotecommand.Executor {
	cfg := &rest.Config{Host: base}
	u, err := url.Parse(base + "/api/v1/namespaces/ns/pods/p/exec?" + query)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := remotecommand.NewWebSocketExecutor(cfg, "GET", u.String())
	if err != nil {
		t.Fatal(err)
	}
	v4, err := remotecommand.NewWebSocketExecutorForProtocols(cfg, "GET", u.String(), "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	sp, err := remotecommand.NewSPDYExecutor(cfg, "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"websocket v5": ws, "websocket v4": v4, "spdy": sp}
}

func TestExec(t *testing.T) {
	w, _ := podWorld(t)
	base := w.serve().URL
	for name, ex := range executors(t, base, "command=cat&stdin=true&stdout=true&stderr=true") {
		if name == "websocket v4" {
			continue // cannot close stdin
		}
		var out bytes.Buffer
		err := ex.StreamWithContext(limited(t), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: io.Discard})
		if err != nil || out.String() != "hello" {
			t.Errorf("%s: cat says %q, error %v", name, out.String(), err)
		}
	}
	for name, ex := range executors(t, base, "command=fail&stdout=true&stderr=true") {
		var out, errs bytes.Buffer
		err := ex.StreamWithContext(limited(t), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
		code, ok := err.(exec.CodeExitError)
		if !ok || code.Code != 3 || errs.String() != "failing" {
			t.Errorf("%s: %q, error %v", name, errs.String(), err)
		}
	}
	for name, ex := range executors(t, base, "command=size&stdout=true&tty=true&stdin=true") {
		var out bytes.Buffer
		in, stop := io.Pipe()
		err := ex.StreamWithContext(limited(t), remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: true,
			TerminalSizeQueue: &once{w: 80, h: 24}})
		stop.Close()
		if err != nil || out.String() != "80x24" {
			t.Errorf("%s: size %q, error %v", name, out.String(), err)
		}
	}
}

type once struct{ w, h uint16 }

func (o *once) Next() *remotecommand.TerminalSize {
	if o.w == 0 {
		return nil
	}
	s := &remotecommand.TerminalSize{Width: o.w, Height: o.h}
	o.w = 0
	return s
}

func TestExecRefused(t *testing.T) {
	w, _ := podWorld(t)
	w.must("GET", "/api/v1/namespaces/ns/pods/p/exec?command=cat", "", 400)
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "SPDY/3.1"}
	for path, message := range map[string]string{
		"/api/v1/namespaces/ns/pods/two/exec?container=c":      "pod two does not have a host assigned",
		"/api/v1/namespaces/ns/pods/p/exec?container=nonesuch": "container nonesuch is not valid for pod p",
		"/api/v1/namespaces/ns/pods/two/portforward":           "pod two does not have a host assigned",
	} {
		t.Run(path, func(t *testing.T) {
			if st := w.must("POST", path, "", 400, upgrade...).status(t); st.Message != message {
				t.Errorf("%s: %q", path, st.Message)
			}
		})
	}
}

// Admission is asked before the pod is looked for.
func TestConnectAdmission(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		c.Connect = func(_ context.Context, r *server.Request, opts runtime.Object) error {
			return apierrors.NewBadRequest(fmt.Sprintf("%T of %s", opts, r.Name))
		}
	})
	for path, message := range map[string]string{
		"none/exec?command=ls": "*v1.PodExecOptions of none", "none/attach": "*v1.PodAttachOptions of none",
		"none/portforward?ports=80": "*v1.PodPortForwardOptions of none", "https:none:80/proxy": "*v1.PodProxyOptions of https:none:80",
	} {
		t.Run(path, func(t *testing.T) {
			if st := w.must("POST", "/api/v1/namespaces/ns/pods/"+path, "", 400).status(t); st.Message != message {
				t.Errorf("%s: %q", path, st.Message)
			}
		})
	}
}

func TestPortForward(t *testing.T) {
	w, _ := podWorld(t)
	base := w.serve().URL
	u, err := url.Parse(base + "/api/v1/namespaces/ns/pods/p/portforward")
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, &rest.Config{Host: base})
	if err != nil {
		t.Fatal(err)
	}
	rt, up, err := spdy.RoundTripperFor(&rest.Config{Host: base})
	if err != nil {
		t.Fatal(err)
	}
	dialers := map[string]httpstream.Dialer{"websocket": tunnel, "spdy": spdy.NewDialerForStreaming(up, &http.Client{Transport: rt},
		"POST", u)}
	for name, d := range dialers {
		t.Run(name, func(t *testing.T) { forward(t, d) })
	}
}

func forward(t *testing.T, d httpstream.Dialer) {
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(limited(t))
	fw, err := portforward.NewOnAddressesForStreamingWithContext(ctx, d, []string{"127.0.0.1"}, []string{"0:80"}, ready, io.Discard,
		io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- fw.ForwardPorts() }()
	defer func() { cancel(); <-done }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("forwarding ended: %v", err)
	}
	ports, err := fw.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "hello")
		got, err := io.ReadAll(conn)
		conn.Close()
		if string(got) != "80 says hello" {
			t.Errorf("read %q, error %v", got, err)
		}
	}
}

func TestNodeProxy(t *testing.T) {
	w, _ := podWorld(t)
	got := w.must("GET", "/api/v1/nodes/n1/proxy/stats/summary?x=1", "", 200)
	if string(got.body) != "stats of /stats/summary" {
		t.Errorf("body %q", got.body)
	}
	w.must("GET", "/api/v1/nodes/none/proxy/stats", "", 404)
	if got := w.must("GET", "/api/v1/nodes/n1/proxy", "", 301); got.header.Get("Location") != "/api/v1/nodes/n1/proxy/" {
		t.Errorf("redirected to %q", got.header.Get("Location"))
	}
}

func TestPodAndServiceProxy(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			w.Header().Set("Location", "/there")
			w.WriteHeader(http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer page.Close()
	var dialed []string
	w := newWorld(t, func(c *httpapi.Config) {
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed = append(dialed, addr)
			return (&net.Dialer{}).DialContext(ctx, network, page.Listener.Addr().String())
		}
	})
	w.must("POST", "/api/v1/namespaces/ns/pods",
		`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":8080}]}]}}`, 201)
	const pod = "/api/v1/namespaces/ns/pods/"
	w.must("GET", pod+"p/proxy/a", "", 400)
	patchIP := func(ip string) {
		w.must("PATCH", pod+"p/status", `{"status":{"podIP":"`+ip+`","podIPs":[{"ip":"`+ip+`"}]}}`, 200, "Content-Type",
			"application/merge-patch+json")
	}
	patchIP("127.0.0.1")
	w.must("GET", pod+"p/proxy/a", "", 400) // not to the server itself
	patchIP("10.1.2.3")
	got := w.must("PUT", pod+"p/proxy/a/b?q=1", "x", 200, "Authorization", "Bearer secret")
	if string(got.body) != "PUT /a/b " || dialed[0] != "10.1.2.3:8080" {
		t.Errorf("body %q by %v", got.body, dialed)
	}
	if got := w.must("GET", pod+"http:p:9090/proxy/moved", "",
		302); got.header.Get("Location") != "/api/v1/namespaces/ns/pods/http:p:9090/proxy/there" {
		t.Errorf("redirected to %q", got.header.Get("Location"))
	}
	if last := dialed[len(dialed)-1]; last != "10.1.2.3:9090" {
		t.Errorf("dialed %q", last)
	}
	w.must("GET", pod+"p:1:2:3/proxy/", "", 400)
}

// Who may only read must not get into pods by a GET that becomes a WebSocket.
func TestConnectByGetNeedsCreate(t *testing.T) {
	a := newAgent(t)
	creates := false
	w := newWorld(t, func(c *httpapi.Config) {
		c.Nodes = a
		c.Authz = everyone{func(a *auth.Attributes) bool { return a.Verb == "get" || creates && a.Verb == "create" }}
	})
	w.must("POST", "/api/v1/nodes", `{"metadata":{"name":"n1"}}`, 201)
	w.must("POST", "/api/v1/namespaces/ns/pods",
		`{"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`, 201)
	for _, creates = range []bool{false, true} {
		for _, sub := range []string{"exec?command=cat", "attach", "portforward?ports=80"} {
			for _, upgrade := range []string{"websocket", "SPDY/3.1", ""} {
				path := "/api/v1/namespaces/ns/pods/p/" + sub
				got := w.do("GET", path, "", "Test-User", "reader", "Connection", "Upgrade", "Upgrade", upgrade)
				if refused := got.code == http.StatusForbidden; refused == creates {
					t.Errorf("%s with upgrade %q, may create %v: %d %s", sub, upgrade, creates, got.code, got.body)
				}
				name, _, _ := strings.Cut(sub, "?")
				want := `pods "p" is forbidden: User "reader" cannot create resource "pods/` + name + `" in API group "" in the namespace "ns"`
				if !creates && got.status(t).Message != want {
					t.Errorf("%s: %q", sub, got.status(t).Message)
				}
			}
		}
	}
	if got := w.do("GET", "/api/v1/namespaces/ns/pods/p/log", "", "Test-User", "reader"); got.code != http.StatusOK {
		t.Errorf("logs: %d %s", got.code, got.body)
	}
}

// The server must not be led to its own loopback, nor to its cloud's metadata, by an address that somebody wrote.
func TestProxyReachesGlobalAddressesOnly(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret") }))
	defer secret.Close()
	_, port, err := net.SplitHostPort(secret.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t)
	w := newWorld(t, func(c *httpapi.Config) { c.Nodes = a })
	w.must("POST", "/api/v1/nodes", `{"metadata":{"name":"n1"}}`, 201)
	w.must("POST", "/api/v1/namespaces/ns/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201)
	for _, ip := range []string{"0.0.0.0", "::", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1",
		"224.0.0.1", "ff02::1", "255.255.255.255"} {
		w.do("PATCH", "/api/v1/namespaces/ns/pods/p/status", `{"status":{"podIP":"`+ip+`","podIPs":[{"ip":"`+ip+`"}]}}`, "Content-Type",
			"application/merge-patch+json")
		for _, name := range []string{"p:" + port, "http:p:" + port, "https:p:" + port} {
			if got := w.do("GET", "/api/v1/namespaces/ns/pods/"+name+"/proxy/x", ""); got.code != 400 ||
				strings.Contains(string(got.body), "secret") {
				t.Errorf("pod at %s as %s: %d %s", ip, name, got.code, got.body)
			}
		}
	}
	for _, name := range []string{"n1:" + port, "http:n1:" + port} { // the agent is at 127.0.0.1
		if got := w.do("GET", "/api/v1/nodes/"+name+"/proxy/x", ""); got.code != 400 || strings.Contains(string(got.body), "secret") {
			t.Errorf("node as %s: %d %s", name, got.code, got.body)
		}
	}
	w.must("GET", "/api/v1/nodes/n1/proxy/stats/summary", "", 200) // the agent itself, who must prove that it is
}

// The first version of the protocol has no status: a failure is plain text on the channel of errors, a success is silent.
func TestExecByTheFirstProtocol(t *testing.T) {
	w, _ := podWorld(t)
	base := strings.Replace(w.serve().URL, "http", "ws", 1) + "/api/v1/namespaces/ns/pods/p/exec?stdout=true&stderr=true&command="
	for _, tt := range []struct{ protocol, command, want string }{
		{"channel.k8s.io", "fail", "\x02failing|\x03command terminated with non-zero exit code: command terminated with exit code 3"},
		{"base64.channel.k8s.io", "fail",
			"2ZmFpbGluZw==|3Y29tbWFuZCB0ZXJtaW5hdGVkIHdpdGggbm9uLXplcm8gZXhpdCBjb2RlOiBjb21tYW5kIHRlcm1pbmF0ZWQgd2l0aCBleGl0IGNvZGUgMw=="},
		{"channel.k8s.io", "cat", ""},
		{"", "cat", ""},
	} {
		t.Run(tt.protocol, func(t *testing.T) {
			d := websocket.Dialer{}
			if tt.protocol != "" {
				d.Subprotocols = []string{tt.protocol}
			}
			conn, _, err := d.DialContext(limited(t), base+tt.command, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for {
				_, b, err := conn.ReadMessage()
				if err != nil {
					break
				}
				if len(b) > 1 { // empty ones only open a channel
					got = append(got, string(b))
				}
			}
			conn.Close()
			if strings.Join(got, "|") != tt.want {
				t.Errorf("%q %s: %q, want %q", tt.protocol, tt.command, strings.Join(got, "|"), tt.want)
			}
		})
	}
}

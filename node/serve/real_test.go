package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	clientexec "k8s.io/client-go/util/exec"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/node/logs"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/test/need"
)

// real is a container of testdata/app in an own containerd, in the host's network.
type real struct {
	rt       *runtime.Runtime
	box, id  string
	logs     string // directory of all logs
	log      string
	port     string // that the container listens at, on the loopback
	teardown []func() error
}

func startReal(t *testing.T) *real {
	t.Helper()
	dir, err := os.MkdirTemp("", "kloop") // short: socket paths have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	need.Have(t, need.Containerd, runtime.Available(runtime.Config{Dir: dir}))
	r := &real{}
	c := runtime.New(runtime.Config{Dir: dir})
	ready, done := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { done <- c.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		for i := len(r.teardown) - 1; i >= 0; i-- {
			if err := r.teardown[i](); err != nil {
				t.Error(err)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	archive := pack(t, dir)
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := runtime.Load(short, c.Socket(), archive); err != nil {
		t.Fatal(err)
	}
	if r.rt, err = runtime.Connect(short, c.Socket()); err != nil {
		t.Fatal(err)
	}
	r.teardown = append(r.teardown, r.rt.Close)
	r.run(t, short, dir)
	return r
}

func pack(t *testing.T, dir string) (archive string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "app"), "./testdata/app")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "app"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err = image.Pack(&b, image.Spec{Ref: "kloop.dev/app:1", Files: []image.File{{Path: "/app", Mode: 0o755, Data: program}},
		Entrypoint: []string{"/app"}})
	archive = filepath.Join(dir, "app.tar")
	if err = errors.Join(err, os.WriteFile(archive, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return archive
}

// run starts the container.
func (r *real) run(t *testing.T, ctx context.Context, dir string) {
	t.Helper()
	rt := r.rt.Containers
	labels := map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u1"}
	box := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: "web", Uid: "u1", Namespace: "ns"}, Labels: labels,
		LogDirectory: filepath.Join(dir, "logs", "ns_web_u1"),
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}}}
	made, err := rt.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: box})
	if err != nil {
		t.Fatal(err)
	}
	r.box = made.PodSandboxId
	r.teardown = append(r.teardown, func() error {
		_, err1 := rt.StopPodSandbox(context.Background(), &cri.StopPodSandboxRequest{PodSandboxId: r.box})
		_, err2 := rt.RemovePodSandbox(context.Background(), &cri.RemovePodSandboxRequest{PodSandboxId: r.box})
		return errors.Join(err1, err2)
	})
	if err := os.MkdirAll(filepath.Join(dir, "logs", "ns_web_u1", "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := rt.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: r.box, SandboxConfig: box, Config: &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "c"}, Image: &cri.ImageSpec{Image: "kloop.dev/app:1"}, LogPath: "c/0.log", Stdin: true,
		Args: []string{"serve"}, Labels: labels,
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
			NamespaceOptions: box.Linux.SecurityContext.NamespaceOptions}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.id, r.logs, r.log = c.ContainerId, filepath.Join(dir, "logs"), filepath.Join(dir, "logs", "ns_web_u1", "c", "0.log")
	if _, err := rt.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: r.id}); err != nil {
		t.Fatal(err)
	}
}

// TestReal speaks to a real container as an API server does. It needs root and containerd.
func TestReal(t *testing.T) {
	r := startReal(t)
	n := serveNode(t, r.rt, r.log, r.id)
	t.Run("logs", func(t *testing.T) { followReal(t, n, r) })
	t.Run("exec", func(t *testing.T) { execReal(t, n) })
	t.Run("attach", func(t *testing.T) { attachReal(t, n, r) })
	t.Run("portForward", func(t *testing.T) { forwardReal(t, n, r) })
	t.Run("stats", func(t *testing.T) { statsReal(t, n) })
	t.Run("end", func(t *testing.T) { endReal(t, n, r) })
}

func (n *node) config(t *testing.T) *rest.Config {
	t.Helper()
	cert, key, err := n.ca.KubeletClient()
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{Host: n.url, TLSClientConfig: rest.TLSClientConfig{CertData: cert, KeyData: key, CAData: n.ca.CA.PEM()}}
}

func (n *node) at(t *testing.T, path string, query url.Values) *url.URL {
	t.Helper()
	u, err := url.Parse(n.url + path)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = query.Encode()
	return u
}

// followReal reads until both greetings have come, one of which tells the port.
func followReal(t *testing.T, n *node, r *real) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", n.url+"/containerLogs/ns/web/c?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := n.server(t).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	oops := false
	for in := bufio.NewScanner(res.Body); r.port == "" || !oops; {
		if !in.Scan() {
			t.Fatalf("port %q, oops %v: %v", r.port, oops, in.Err())
		}
		if _, port, ok := strings.Cut(in.Text(), "hello, I listen at 127.0.0.1:"); ok {
			r.port = port
		}
		oops = oops || in.Text() == "oops"
	}
}

func execReal(t *testing.T, n *node) {
	u := n.at(t, "/exec/ns/web/c", url.Values{"command": {"/app", "cat"}, "input": {"1"}, "output": {"1"}, "error": {"1"}})
	ex, err := remotecommand.NewSPDYExecutor(n.config(t), "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err = ex.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("through and through"), Stdout: &out,
		Stderr: &errs})
	var code clientexec.CodeExitError
	if !errors.As(err, &code) || code.Code != 3 || out.String() != "through and through" || errs.String() != "done" {
		t.Errorf("%v, %q, %q", err, &out, &errs)
	}
}

// attachReal talks to the container, while its log is rotated and followed.
func attachReal(t *testing.T, n *node, r *real) {
	u := n.at(t, "/attach/ns/web/c", url.Values{"input": {"1"}, "output": {"1"}})
	ex, err := remotecommand.NewSPDYExecutor(n.config(t), "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log := follow(t, ctx, r.log, wish{limit: -1, alive: func(context.Context) bool { return true }})
	log.expect(t, "") // it stands at the end of the log
	in, typed := io.Pipe()
	read, out := io.Pipe()
	go func() {
		out.CloseWithError(ex.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out}))
	}()
	said := ""
	for _, word := range []string{"before\n", "after\n"} {
		go fmt.Fprint(typed, word)
		buf := make([]byte, len(word))
		if _, err := io.ReadFull(read, buf); err != nil || string(buf) != word {
			t.Errorf("%q %v", buf, err)
		}
		said += word
		log.expect(t, said)
		if err := logs.Rotate(ctx, logs.Config{Dir: r.logs, Containers: r.rt.Containers, MaxBytes: 1}); err != nil {
			t.Error(err)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(r.log)); err != nil || len(files) != 3 {
		t.Errorf("files after two rotations: %v %v", files, err)
	}
	cancel()
	typed.Close()
	read.Close()
	<-log.done
}

func forwardReal(t *testing.T, n *node, r *real) {
	if r.port == "" {
		followReal(t, n, r)
	}
	rt, up, err := spdy.RoundTripperFor(n.config(t))
	if err != nil {
		t.Fatal(err)
	}
	dial := spdy.NewDialer(up, &http.Client{Transport: rt}, "POST", n.at(t, "/portForward/ns/web", url.Values{"port": {r.port}}))
	stop, ready := make(chan struct{}), make(chan struct{})
	var errs bytes.Buffer
	fw, err := portforward.NewOnAddresses(dial, []string{"127.0.0.1"}, []string{"0:" + r.port}, stop, ready, io.Discard, &errs)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- fw.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	ports, err := fw.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "ping")
	buf := make([]byte, 4)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "ping" {
		t.Errorf("%q %v", buf, err)
	}
	c.Close()
	close(stop)
	if err := <-done; err != nil || errs.Len() > 0 {
		t.Errorf("%v %s", err, &errs)
	}
}

func statsReal(t *testing.T, n *node) {
	_, metrics := call(t, n.server(t), "GET", n.url+"/metrics/resource")
	for _, want := range []string{"\nnode_cpu_usage_seconds_total ", "\nnode_memory_working_set_bytes ", "resource_scrape_error 0\n",
		`container_cpu_usage_seconds_total{container="c",namespace="ns",pod="web"} `,
		`container_memory_working_set_bytes{container="c",namespace="ns",pod="web"} `,
		`container_start_time_seconds{container="c",namespace="ns",pod="web"} 1`, `pod_cpu_usage_seconds_total{namespace="ns",pod="web"} `} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %q:\n%s", want, metrics)
		}
	}
	code, body := call(t, n.server(t), "GET", n.url+"/stats/summary")
	if code != 200 || !strings.Contains(body, `"podRef":{"name":"web","namespace":"ns","uid":"u1"}`) {
		t.Errorf("%d %s", code, body)
	}
}

// endReal: a follower gets the last words and then the end.
func endReal(t *testing.T, n *node, r *real) {
	type answer struct {
		code int
		text string
	}
	got := make(chan answer, 1)
	go func() {
		code, text := call(t, n.server(t), "GET", n.url+"/containerLogs/ns/web/c?follow=true&tailLines=0")
		got <- answer{code, text}
	}()
	if _, err := r.rt.Containers.StopContainer(t.Context(), &cri.StopContainerRequest{ContainerId: r.id, Timeout: 3600}); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.code != 200 || a.text != "bye\n" && a.text != "" { // it may have asked too late
		t.Errorf("%d %q", a.code, a.text)
	}
	if _, text := call(t, n.server(t), "GET", n.url+"/containerLogs/ns/web/c?tailLines=1"); text != "bye\n" {
		t.Errorf("%q", text)
	}
}

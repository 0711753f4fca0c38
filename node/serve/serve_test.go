package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
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

func (stub) CheckpointContainer(_ context.Context, r *cri.CheckpointContainerRequest,
	_ ...grpc.CallOption) (*cri.CheckpointContainerResponse, error) {
	if r.ContainerId != "able" {
		return nil, status.Error(codes.Unimplemented, "unknown method")
	}
	return &cri.CheckpointContainerResponse{}, os.WriteFile(r.Location, []byte("state"), 0o600)
}

func (stub) ListContainers(context.Context, *cri.ListContainersRequest, ...grpc.CallOption) (*cri.ListContainersResponse, error) {
	return &cri.ListContainersResponse{Containers: []*cri.Container{{Id: "id1", Metadata: &cri.ContainerMetadata{Name: "c"}, CreatedAt: 5e9,
		Image: &cri.ImageSpec{Image: "img"}, Labels: map[string]string{"io.kubernetes.pod.name": "web",
			"io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u1"}}}}, nil
}

func (stub) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest, ...grpc.CallOption) (*cri.ListPodSandboxResponse, error) {
	return &cri.ListPodSandboxResponse{}, nil
}

func (stub) ListPodSandboxStats(context.Context, *cri.ListPodSandboxStatsRequest,
	...grpc.CallOption) (*cri.ListPodSandboxStatsResponse, error) {
	n := func(v uint64) *cri.UInt64Value { return &cri.UInt64Value{Value: v} }
	cpu, memory := &cri.CpuUsage{UsageCoreNanoSeconds: n(2.5e9)}, &cri.MemoryUsage{WorkingSetBytes: n(1 << 20), RssBytes: n(4096)}
	return &cri.ListPodSandboxStatsResponse{Stats: []*cri.PodSandboxStats{{
		Attributes: &cri.PodSandboxAttributes{Id: "box", Metadata: &cri.PodSandboxMetadata{Name: "web", Namespace: "ns", Uid: "u1"}},
		Linux: &cri.LinuxPodSandboxStats{Cpu: cpu, Memory: memory,
			Network: &cri.NetworkUsage{DefaultInterface: &cri.NetworkInterfaceUsage{Name: "eth0", RxBytes: n(7), TxBytes: n(8)}},
			Containers: []*cri.ContainerStats{{Attributes: &cri.ContainerAttributes{Id: "id1", Metadata: &cri.ContainerMetadata{Name: "c"}},
				Cpu: cpu, Memory: memory, WritableLayer: &cri.FilesystemUsage{UsedBytes: n(99)}}}}}}}, nil
}

func (stub) ExecSync(_ context.Context, r *cri.ExecSyncRequest, _ ...grpc.CallOption) (*cri.ExecSyncResponse, error) {
	return &cri.ExecSyncResponse{Stdout: []byte(r.ContainerId + ": " + strings.Join(r.Cmd, ","))}, nil
}

// node is the API of a node with the pod ns/web, and a way to call it as somebody.
type node struct {
	url   string
	roots *x509.CertPool
	ca    *pki.PKI
}

func serveNode(t *testing.T, rt *runtime.Runtime, logPath, id string, more ...func(*Config)) *node {
	t.Helper()
	keys, err := pki.Open(pki.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "waiting"}}}}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *apiresource.NewQuantity(1<<21, apiresource.BinarySI)}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Image: "img", ContainerID: "containerd://id1"}}
	cfg := Config{Runtime: rt, Checkpoints: filepath.Join(t.TempDir(), "checkpoints"),
		Configuration: func() any { return map[string]int{"maxPods": 7} },
		Probes: func() []ProbeCount {
			return []ProbeCount{{"ns", "web", "u1", "c", "Liveness", "failed", 3}, {"ns", "web", "u1", "c", "Liveness", "successful", 9}}
		}, ClientCA: keys.CA.Pool, Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} },
		Container: func(_, _, name string, previous bool) (string, string, bool, error) {
			switch {
			case previous:
				return "", "", false, NoLog(`previous terminated container "c" in pod "web" not found`)
			case name != "c":
				return "", "", false, NoLog(`container "waiting" in pod "web" is waiting to start: ContainerCreating`)
			}
			return id, logPath, true, nil
		}}
	for _, f := range more {
		f(&cfg)
	}
	var pair tls.Certificate
	cfg.Serving = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	h := New(cfg)
	cert, key, err := keys.NodeServing("n1", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, h, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil })
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
	for _, want := range []string{"go_goroutines ", "process_start_time_seconds ", "kubelet_running_pods ",
		`kubelet_running_containers{container_state="running"} `} {
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
		t.Run(tt.who, func(t *testing.T) {
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
		})
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
		{"GET /containerLogs/ns/gone/c", 404, `pod "gone" does not exist`},
		{"POST /exec/ns/web/c?input=1&tty=1&error=1", 400, "tty and stderr"},
		{"POST /exec/ns/gone/c?input=1", 404, "pod does not exist"},
		{"POST /exec/ns/web/u2/c?input=1", 404, "pod does not exist"},
		{"POST /attach/ns/gone/c?input=1", 404, "pod does not exist"},
		{"POST /run/ns/gone/c?cmd=ls", 404, "pod does not exist"},
		{"POST /portForward/ns/gone", 404, "pod does not exist"},
		{"POST /exec/ns/web/waiting?input=1", 500, `container not found ("waiting")`},
		{"POST /run/ns/web/waiting?cmd=ls", 500, `container not found ("waiting")`},
		{"POST /attach/ns/web/waiting?input=1", 500, "container waiting not found in pod web_ns"},
		{"POST /portForward/ns/web?port=x", 400, "invalid port"},
		{"POST /run/ns/web/u1/c?cmd=ls+-l", 200, "id1: ls,-l"},
		{"POST /run/ns/web/c", 400, "cmd"},
		{"POST /checkpoint/ns/web/c", 501, "takes containerd 2.0 and criu"},
		{"POST /checkpoint/ns/web/c?timeout=-1", 400, "no number of seconds"},
		{"POST /checkpoint/ns/web/other", 404, "container other does not exist"},
		{"POST /checkpoint/ns/web/waiting", 404, "does not run"},
		{"POST /checkpoint/ns/none/c", 404, "pod does not exist"},
		{"GET /configz", 200, `{"kubeletconfig":{"maxPods":7}}`},
		{"GET /metrics/probes", 200,
			`prober_probe_total{container="c",namespace="ns",pod="web",pod_uid="u1",probe_type="Liveness",result="failed"} 3`},
		{"GET /runningpods/", 200, `"name":"web","namespace":"ns","uid":"u1"`},
		{"GET /runningpods/", 200, `"containers":[{"name":"c","image":"img"`},
		{"GET /pods", 200, `"kind":"PodList"`}, {"GET /pods", 200, `"uid":"u1"`},
		{"GET /healthz", 200, "ok"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.path, " ")
			if code, body := call(t, tr, method, n.url+path); code != tt.code || !strings.Contains(body, tt.body) {
				t.Errorf("%s: %d %q, want %d %q", tt.path, code, body, tt.code, tt.body)
			}
		})
	}
}

// A list of pods says once what it has.
func TestPodsOfOneKind(t *testing.T) {
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "id1")
	_, body := call(t, n.server(t), "GET", n.url+"/pods")
	if strings.Contains(body, `"kind":"Pod"`) || strings.Count(body, "apiVersion") != 1 {
		t.Errorf("got %s", body)
	}
}

// What dashboards for Kubernetes ask for: containers have their image and pods have none, and each has its sums once.
func TestCadvisorMetrics(t *testing.T) {
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "id1")
	code, body := call(t, n.server(t), "GET", n.url+"/metrics/cadvisor")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	const c = `container="c",id="/kubepods/podu1/id1",image="img",name="id1",namespace="ns",pod="web"`
	const pod = `container="",id="/kubepods/podu1",image="",name="",namespace="ns",pod="web"`
	for _, want := range []string{
		"machine_cpu_cores ", "machine_memory_bytes ", `container_cpu_usage_seconds_total{` + c + `,cpu="total"} 2.5 `,
		`container_cpu_usage_seconds_total{` + pod + `,cpu="total"} 2.5 `, `container_memory_working_set_bytes{` + c + `} 1.048576e+06 `,
		`container_memory_rss{` + c + `} 4096 `, `container_spec_memory_limit_bytes{` + c + `} 2.097152e+06`,
		`container_network_receive_bytes_total{` + pod + `,interface="eth0"} 7 `, `container_start_time_seconds{` + c + `} 5`,
		`container_network_transmit_bytes_total{` + pod + `,interface="eth0"} 8 `, `container_fs_usage_bytes{` + c + `} 99 `,
	} {
		if strings.Count(body, "\n"+want) != 1 {
			t.Errorf("not once: %s", want)
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(body) {
		name, _, _ := strings.Cut(line, " ")
		if strings.HasPrefix(line, "# TYPE ") {
			name = line
		}
		if seen[name] && name != "#" {
			t.Errorf("twice: %s", line)
		}
		seen[name] = true
	}
}

func TestCheckpoint(t *testing.T) {
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "able")
	code, body := call(t, n.server(t), "POST", n.url+"/checkpoint/ns/web/c")
	var list struct{ Items []string }
	if err := json.Unmarshal([]byte(body), &list); code != http.StatusOK || err != nil || len(list.Items) != 1 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	if text, err := os.ReadFile(list.Items[0]); err != nil || string(text) != "state" {
		t.Errorf("%q, %v", text, err)
	}
	if name := filepath.Base(list.Items[0]); !strings.HasPrefix(name, "checkpoint-web_ns-c-") || !strings.HasSuffix(name, ".tar") {
		t.Errorf("the archive is named %s", name)
	}
}

package loadbalancer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// fixed is a client of a cluster in which nothing changes; patches are kept.
type fixed struct {
	client.Client
	v       *view.View
	patches []string
}

func newFixed(t *testing.T, objs map[resource.Kind][]resource.Object) *fixed {
	t.Helper()
	f := &fixed{v: view.New(kinds.NewSet())}
	for k, list := range objs {
		f.v.Replace(k, 1, list)
	}
	return f
}

func (f *fixed) Read() resource.Reader { return f.v.Snapshot() }

func (f *fixed) Patch(_ context.Context, _ resource.Kind, _, _ string, p client.Patch) (resource.Object, error) {
	f.patches = append(f.patches, string(p.Data))
	return nil, nil
}

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   2: 0100000A:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   3: 0200000A:0051 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   4: 0100000A:0050 0500000A:0050 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   5: nonsense
`

const udp6Table = `  sl  local_address                         remote_address                        st
  10: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07
  11: 00000000000000000000000000000000:FFF0 00000000000000000000000000000000:0000 07
  12: 0000000000000000FFFF00000100000A:0043 00000000000000000000000000000000:0000 07
`

func TestTaken(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"tcp": tcpTable, "udp6": udp6Table} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}}}
	pod := func(name string, phase corev1.PodPhase, port int32) resource.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: port,
				ContainerPort: 1}}}}}}
	}
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	objs := map[resource.Kind][]resource.Object{kinds.Nodes: {n}, kinds.Services: {web},
		kinds.Pods: {pod("p", corev1.PodRunning, 8443), pod("q", corev1.PodSucceeded, 8444)}}
	f := newFixed(t, objs)
	got, err := Ports{Client: f, Node: "a", files: dir}.taken(f.Read(), n)
	if want := "22/TCP 53/UDP 67/UDP 6443/TCP 8443/TCP"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
}

func TestNobodyAsks(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	f := newFixed(t, map[resource.Kind][]resource.Object{kinds.Nodes: {n}})
	again, err := Ports{Client: f, Node: "a", files: "/does/not/exist"}.look(t.Context())
	if again != 0 || err != nil {
		t.Errorf("again after %v, %v: a cluster without load balancers costs nothing", again, err)
	}
}

// TestTakenBack: a node whose services another program serves lends no addresses any more.
func TestTakenBack(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{wellknown.TakenPortsAnnotation: ""}}}
	f := newFixed(t, map[resource.Kind][]resource.Object{kinds.Nodes: {n}})
	if _, err := (Ports{Client: f, Node: "a", Off: true}).look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"annotations":{"` + wellknown.TakenPortsAnnotation + `":null}}}`; len(f.patches) != 1 || f.patches[0] != want {
		t.Errorf("%v, want %s", f.patches, want)
	}
}

// FuzzSockets: whatever the table holds, it is read without harm.
func FuzzSockets(f *testing.F) {
	f.Add(tcpTable)
	f.Add(udp6Table)
	f.Fuzz(func(t *testing.T, text string) {
		list, _ := sockets(strings.NewReader(text), "0A")
		_ = fmt.Sprint(list)
	})
}

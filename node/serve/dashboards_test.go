package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/meter"
	"github.com/kloop-dev/kloop/node/runtime"
)

// busy has the agent count one of everything.
func busy(c *Config) {
	m, now := meter.New(), time.Now()
	m.Call("/runtime.v1.RuntimeService/RunPodSandbox", time.Second, errors.New("no"))
	m.Relist(now.Add(-time.Second), now)
	m.Relist(now, now)
	m.Group("create", time.Millisecond)
	m.Volume("volume_mount", "kubernetes.io/secret", time.Millisecond, nil)
	m.Evicted("memory.available")
	m.Worked("sync", time.Millisecond)
	m.Seen("u1", 1, now)
	m.Pulled(1<<21, time.Second)
	m.Box("", time.Second)
	count(m)
	m.Runs("u1", now, now.Add(time.Second), 0)
	c.Meter = m.Gatherer()
	use := cgroup.Use{Pid: os.Getpid(), Disks: map[string]cgroup.Disk{"/dev/sda": {Reads: 1}},
		Counts: map[string]uint64{"nr_periods": 4, "nr_throttled": 2, "throttled_ns": 5e8, "cache": 4096, "swap": 1}}
	c.Groups = func(*corev1.Pod) (cgroup.Use, map[string]cgroup.Use) {
		return use, map[string]cgroup.Use{"id1": use}
	}
	c.Volumes = func(context.Context, *corev1.Pod) []csi.Usage {
		return []csi.Usage{{Volume: "data", Namespace: "ns", Claim: "c", Size: 9, Used: 2}, {Volume: "tmp", Used: 3}}
	}
	pods := c.Pods
	c.Pods = func() []*corev1.Pod {
		list := pods()
		list[0].Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		return list
	}
}

// count has the agent ask the API server.
func count(m *meter.Meter) {
	m.Asks(func() (*tls.Certificate, error) { return nil, errors.New("none yet") })
	m.NotRenewed(true)
	res, err := m.Transport(answers{}).RoundTrip(&http.Request{Method: "GET", URL: &url.URL{Host: "server:6443"}})
	if err != nil || res.StatusCode != http.StatusTeapot {
		panic("the answer is lost")
	}
}

type answers struct{}

func (answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusTeapot}, nil
}

// TestDashboards asks for everything that people's dashboards do.
func TestDashboards(t *testing.T) {
	if list, err := netDevices("/proc/self/net/dev"); err != nil || len(list) == 0 {
		t.Skip("this machine has no network that could be counted")
	}
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "id1", busy)
	tr, pages := n.server(t), map[string]string{}
	text, err := os.ReadFile("testdata/dashboards.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if pages[f[0]] == "" {
			code, body := call(t, tr, "GET", n.url+f[0])
			if code != http.StatusOK {
				t.Fatalf("%s: %d %s", f[0], code, body)
			}
			pages[f[0]] = body
		}
		if !offers(pages[f[0]], f[1], strings.Split(f[2], ",")) {
			t.Errorf("%s has no %s with the labels %s", f[0], f[1], f[2])
		}
	}
}

// offers finds a sample of the metric that has all the labels.
func offers(page, metric string, labels []string) bool {
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, metric)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		all := true
		for _, l := range labels {
			all = all && (l == "" || strings.Contains(rest, "{"+l+"=\"") || strings.Contains(rest, ","+l+"=\""))
		}
		if all {
			return true
		}
	}
	return false
}

// TestSummaryWhole has what the summary tells beside CPU and memory, and leaves it out when nobody wants it.
func TestSummaryWhole(t *testing.T) {
	logs := t.TempDir()
	if err := os.MkdirAll(logs+"/c", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(logs+"/c/0.log", make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serveNode(t, &runtime.Runtime{Containers: stub{}}, "", "id1", busy, func(c *Config) {
		c.Logs = func(*corev1.Pod) string { return logs }
	})
	tr := n.server(t)
	var s summary
	code, body := call(t, tr, "GET", n.url+"/stats/summary")
	if err := json.Unmarshal([]byte(body), &s); code != http.StatusOK || err != nil || len(s.Pods) != 1 {
		t.Fatal(code, body, err)
	}
	p := s.Pods[0]
	c := p.Containers[0]
	switch {
	case s.Node.Network == nil, s.Node.Limits == nil, s.Node.Limits.MaxPID == 0, len(s.Node.System) == 0:
		t.Errorf("the node: %+v", s.Node)
	case len(p.Volumes) != 2 || p.Swap == nil || *p.Swap.Used != 1 || c.Swap == nil:
		t.Errorf("the pod: %s", body)
	case c.Logs == nil || *c.Logs.UsedBytes < 1<<16 || c.Rootfs == nil || c.Rootfs.CapacityBytes == nil:
		t.Errorf("the container: %s", body)
	case *p.Ephemeral.UsedBytes != *c.Logs.UsedBytes+*c.Rootfs.UsedBytes+3:
		t.Errorf("%d bytes on the node's disk: %s", *p.Ephemeral.UsedBytes, body)
	}
	_, body = call(t, tr, "GET", n.url+"/stats/summary?only_cpu_and_memory=true")
	if strings.Contains(body, "rootfs") || strings.Contains(body, "volume") || !strings.Contains(body, "cpu") {
		t.Errorf("only CPU and memory: %s", body)
	}
}

func TestOperations(t *testing.T) {
	m := meter.New()
	for method, want := range map[string]string{"RunPodSandbox": "run_podsandbox", "ListPodSandbox": "list_podsandbox",
		"PodSandboxStatus": "podsandbox_status", "StartContainer": "start_container", "UpdateContainerResources": "update_container",
		"ExecSync": "exec_sync", "PullImage": "pull_image", "Version": "version"} {
		t.Run(method, func(t *testing.T) {
			m.Call("/runtime.v1.RuntimeService/"+method, 0, nil)
			got, err := m.Gatherer().Gather()
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range got {
				for _, s := range f.Metric {
					found = found || len(s.Label) == 1 && s.Label[0].GetValue() == want
				}
			}
			if !found {
				t.Errorf("%s is not counted as %s", method, want)
			}
		})
	}
}

// TestPodCounts counts pods by whether they are static, and how far they are.
func TestPodCounts(t *testing.T) {
	made := func(phase corev1.PodPhase, static, goes bool) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if static {
			p.Annotations = map[string]string{mirrorNote: "x"}
		}
		if goes {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	var page strings.Builder
	for _, f := range podCounts([]*corev1.Pod{made(corev1.PodRunning, false, false), made(corev1.PodRunning, true, false),
		made(corev1.PodPending, false, true), made(corev1.PodSucceeded, false, false)}) {
		page.Write(f.Bytes())
	}
	for _, want := range []string{`kubelet_active_pods{static=""} 2`, `kubelet_active_pods{static="true"} 1`,
		`kubelet_desired_pods{static=""} 3`, `kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1`, `kubelet_mirror_pods 1`,
		`kubelet_working_pods{config="desired",lifecycle="terminating",static=""} 1`,
		`kubelet_working_pods{config="desired",lifecycle="terminated",static=""} 1`, `kubelet_managed_ephemeral_containers 0`} {
		if !strings.Contains(page.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

package runtime

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/test/need"
)

func TestConfigs(t *testing.T) {
	for _, tt := range []struct {
		name    string
		format  int
		version string
		has     []string
	}{
		{"containerd 1", 2, "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1",
			[]string{"version = 2", "sandbox_image = 'kloop.dev/pause:1'", "restrict_oom_score_adj = true", "shim.load' = '30s'"}},
		{"containerd 2.0", 3, "containerd github.com/containerd/containerd/v2 2.0.5 abc", []string{"version = 3", "[grpc]"}},
		{"containerd 2.2", 3, "containerd github.com/containerd/containerd/v2 v2.2.9+unknown",
			[]string{"version = 3", "sandbox = 'kloop.dev/pause:1'", "[grpc]\n  address = '/d/run/containerd.sock'"}},
		{"containerd 2.4", 4, "containerd github.com/containerd/containerd/v2 v2.4.2 abc",
			[]string{"version = 4", "sandbox = 'kloop.dev/pause:1'", "load' = '30s'",
				"address = '/d/run/containerd.sock'", "socket_dir = '/d/run/s'"}},
		{"containerd 2.20", 4, "containerd github.com/containerd/containerd/v2 v2.20.0", []string{"version = 4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := format(tt.version); got != tt.format {
				t.Errorf("%s: format = %v", tt.name, got)
			}
			conf, err := containerdConfig(Config{Dir: "/d"}, []string{"/usr/lib/cni"}, tt.format, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.has {
				if !strings.Contains(string(conf), want) {
					t.Errorf("%s: the configuration lacks %q", tt.name, want)
				}
			}
		})
	}
	foreign, err := containerdConfig(Config{Dir: "/d", Foreign: true}, []string{"/opt/cni/bin", "/usr/lib/cni"}, 4, true)
	if err != nil || !strings.Contains(string(foreign), "bin_dirs = ['/opt/cni/bin', '/usr/lib/cni']\n    conf_dir = '/etc/cni/net.d'") {
		t.Errorf("another's network: %v\n%s", err, foreign)
	}
}

// TestFormerConfig: a node that has another sort of runtime than before knows what it left, and only its own.
func TestFormerConfig(t *testing.T) {
	was := foreignConf
	foreignConf = t.TempDir()
	t.Cleanup(func() { foreignConf = was })
	own, given := Config{Dir: t.TempDir()}, Config{Socket: "/run/c.sock"}
	given.Dir = own.Dir
	if left := own.FormerConfig() + given.FormerConfig(); left != "" {
		t.Errorf("of nothing is left %s", left)
	}
	for _, c := range []Config{own, given} {
		text := `{"plugins":[{"ipam":{"dataDir":"` + c.IPAMDir() + `"}}]}`
		if err := errors.Join(os.MkdirAll(filepath.Dir(c.OwnConfig()), 0o700), os.WriteFile(c.OwnConfig(), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got := own.FormerConfig(); got != given.OwnConfig() {
		t.Errorf("with a runtime of its own again: %q", got)
	}
	if got := given.FormerConfig(); got != own.OwnConfig() {
		t.Errorf("with the machine's: %q", got)
	}
	for _, other := range []string{own.Dir + "/more", filepath.Dir(own.Dir)} {
		if got := (Config{Dir: other}).FormerConfig(); got != "" {
			t.Errorf("the node of %s takes away %s", other, got)
		}
	}
}

// TestImported: names are read from the list, by the digests that an import told; version 2 of ctr writes other names than it gave.
func TestImported(t *testing.T) {
	one, two := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	const kind = " application/vnd.oci.image.manifest.v1+json "
	list := "REF TYPE DIGEST SIZE PLATFORMS LABELS\nregistry.example/my-images/an-app:1-2" + kind + one + " 3.0 MiB linux/amd64 -\n" +
		"registry.example/my-images/an-app@" + one + kind + one + " 3.0 MiB linux/amd64 -\n" + one + kind + one + " 3.0 MiB linux/amd64 -\n" +
		"other:1" + kind + two + " 1 MiB linux/amd64 -\n"
	for _, out := range []string{"unpacking registry.example/my-images/an-app:1-2 (" + one + ")...done\n",
		"registry.example/my images/an app:\tsaved\t\n" + strings.TrimSpace(kind) + " " + one + "\nImporting\telapsed: 0.2 s\ttotal:   0.0 B\n"} {
		if got := imported([]byte(out), []byte(list)); len(got) != 1 || got[0] != "registry.example/my-images/an-app:1-2" {
			t.Errorf("%q: %q", out, got)
		}
	}
	if got := imported([]byte("nothing\n"), []byte(list)); len(got) > 0 {
		t.Errorf("nothing was imported, and it has names: %q", got)
	}
}

// TestContainerd runs a real sandbox, in the host's network so that it changes none. It needs root.
func TestContainerd(t *testing.T) {
	dir, err := os.MkdirTemp("", "kloop") // short: socket paths have a limit
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := Config{Dir: dir}
	need.Have(t, need.Containerd, Available(cfg))
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "systemd"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, stop := begin(t, ctx, cfg)
	endSandbox(t, ctx, r, makeSandbox(t, ctx, r))
	pid, err := os.ReadFile(filepath.Join(dir, "run/containerd.pid"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := os.ReadFile(filepath.Join("/proc", string(pid), "environ"))
	if err != nil || strings.Contains(string(env), "NOTIFY_SOCKET=") {
		t.Errorf("containerd speaks to systemd for kloop (%v)", err)
	}
	stop()
}

// TestSlowShim: on a busy machine a shim may answer late; a containerd that starts then does not end its containers. It needs root.
func TestSlowShim(t *testing.T) {
	dir, err := os.MkdirTemp("", "kloop") // short: socket paths have a limit
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := Config{Dir: dir}
	need.Have(t, need.Containerd, Available(cfg))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, stop := begin(t, ctx, cfg)
	id := makeSandbox(t, ctx, r)
	stop()

	shim := shimOf(t, id)
	if err := syscall.Kill(shim, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	again := time.AfterFunc(8*time.Second, func() { _ = syscall.Kill(shim, syscall.SIGCONT) }) // five are containerd's own limit
	defer again.Stop()
	r, stop = begin(t, ctx, cfg)
	defer stop()
	got, err := r.Containers.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil || got.Status.State != cri.PodSandboxState_SANDBOX_READY || shimOf(t, id) != shim {
		t.Errorf("the sandbox whose shim was slow is %v (%v)", got, err)
	}
	endSandbox(t, ctx, r, id)
}

// begin starts a containerd and connects with it. The function that it returns ends both.
func begin(t *testing.T, ctx context.Context, cfg Config) (*Runtime, func()) {
	t.Helper()
	c := New(cfg)
	ready, done := make(chan struct{}), make(chan error, 1)
	run, cancel := context.WithCancel(ctx)
	go func() { done <- c.Run(run, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	r, err := Connect(ctx, c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, stop
}

// shimOf is the process of a sandbox's shim.
func shimOf(t *testing.T, id string) int {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		args, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(args), "containerd-shim") || !strings.Contains(string(args), id) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Errorf("sandbox %s has no shim", id)
	return -1
}

func makeSandbox(t *testing.T, ctx context.Context, r *Runtime) string {
	t.Helper()
	sandbox, err := r.Containers.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: "p", Uid: "u", Namespace: "n"}, LogDirectory: t.TempDir(),
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.PodSandboxId
}

func endSandbox(t *testing.T, ctx context.Context, r *Runtime, id string) {
	t.Helper()
	began := time.Now()
	if _, err := r.Containers.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		t.Error(err)
	}
	t.Logf("stopped after %v", time.Since(began))
	if _, err := r.Containers.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		t.Error(err)
	}
}

// A command that was killed because of its context says why.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ctr"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("too slow"))
	defer cancel()
	if _, err := ctr(ctx, "/none"); err == nil || !strings.Contains(err.Error(), "too slow") {
		t.Errorf("the error is %v", err)
	}
}

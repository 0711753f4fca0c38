//go:build linux

package systemd

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/node/image"
)

const (
	containerd = "unix:///run/containerd/containerd.sock"
	network    = "/etc/cni/net.d/05-kloop.conflist" // of a node that uses it
)

// startContainerd starts the distribution's containerd, which is a service of its own and makes cgroups by systemd.
func startContainerd(t *testing.T) {
	t.Helper()
	const text = `version = 2
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = 'kloop.dev/pause:1'
  [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
      SystemdCgroup = true
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '/usr/lib/cni'
`
	var pause bytes.Buffer
	err := errors.Join(os.MkdirAll("/etc/containerd", 0o755), os.WriteFile("/etc/containerd/config.toml", []byte(text), 0o600),
		image.Pause(&pause), os.WriteFile("/root/pause.tar", pause.Bytes(), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	run(t, "systemctl", "start", "containerd")
	run(t, "ctr", "--namespace", "k8s.io", "images", "import", "/root/pause.tar")
}

// onContainerd has kloop use the distribution's containerd. Pods have kloop's network there; they run on while either of the two is started
// anew, and containerd runs on when kloop is taken away.
func onContainerd(t *testing.T) {
	startContainerd(t)
	n := installOn(t, containerd)
	was := n.deploy(t)
	if _, err := os.Stat(network); err != nil {
		t.Error(err)
	}
	if ip := n.pod(t, "hog", ready).Status.PodIP; ip == "" || ip == address {
		t.Errorf("the pod has the address %q", ip)
	}
	for _, service := range []string{"kloop", "containerd"} {
		run(t, "systemctl", "restart", service)
		n.untouched(t, was, "kloop", fresh)
	}
	run(t, kloop, "uninstall")
	run(t, fresh, "reset", "--yes")
	if left := processes(t, "/hog"); len(left) != 0 {
		t.Errorf("containers run on: %v", left)
	}
	if out := run(t, "systemctl", "list-units", "--all", "--plain", "--no-legend", "*kubepods*"); out != "" {
		t.Errorf("slices are left: %s", out)
	}
	if _, err := os.Stat(network); err == nil {
		t.Errorf("%s is still there", network)
	}
	if out := run(t, "systemctl", "is-active", "containerd"); strings.TrimSpace(out) != "active" {
		t.Errorf("containerd is %s", out)
	}
}

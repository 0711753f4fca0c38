package runtime

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/node/image"
)

// The two configuration formats of containerd: version 2 for 1.x, version 4 for 2.x. Both keep everything below
// one directory, so that several containerds live side by side.
const (
	classic = `version = 2
root = '{dir}/root'
state = '{dir}/state'
imports = []
disabled_plugins = ['io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
[grpc]
  address = '{dir}/run/containerd.sock'
[ttrpc]
  address = '{dir}/run/containerd.sock.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '{dir}/opt'
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = '{pause}'
  disable_apparmor = {no-apparmor}
  restrict_oom_score_adj = {limited-oom}
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = 'overlayfs'
    default_runtime_name = 'runc'
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = '{dir}/state/runc'
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '{plugins}'
    conf_dir = '{dir}/cni/conf'
`
	current = `version = 4
root = '{dir}/root'
state = '{dir}/state'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
[plugins.'io.containerd.server.v1.grpc']
  address = '{dir}/run/containerd.sock'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{dir}/run/containerd.sock.ttrpc'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '{dir}/run/s'
[plugins.'io.containerd.internal.v1.opt']
  path = '{dir}/opt'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = {no-apparmor}
  restrict_oom_score_adj = {limited-oom}
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    sandboxer = 'podsandbox'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = '{dir}/state/runc'
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{plugins}']
    conf_dir = '{dir}/cni/conf'
    use_internal_loopback = true
`
)

// containerdConfig writes the configuration of a containerd that keeps to dir.
func containerdConfig(dir, plugins string, modern, limitedOOM bool) ([]byte, error) {
	t := classic
	if modern {
		t = current
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return []byte(strings.NewReplacer("{dir}", dir, "{plugins}", plugins, "{pause}", image.PauseRef,
		"{limited-oom}", strconv.FormatBool(limitedOOM), "{no-apparmor}", strconv.FormatBool(!hasAppArmor())).Replace(t)), nil
}

// cniConfig is the pod network: a bridge on the node, addresses from its own range, host ports by nftables or
// iptables, whichever the plugin finds.
func cniConfig(dir string, pods netip.Prefix) ([]byte, error) {
	return json.MarshalIndent(map[string]any{"cniVersion": "1.0.0", "name": "kloop", "plugins": []any{
		map[string]any{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, // podnetwork masquerades
			"ipam": map[string]any{"type": "host-local", "dataDir": filepath.Join(dir, "cni/ipam"),
				"ranges": []any{[]any{map[string]any{"subnet": pods.String()}}}, "routes": []any{map[string]any{"dst": "0.0.0.0/0"}}}},
		map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
	}}, "", "  ")
}

package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"text/template"

	"github.com/kloop-dev/kloop/node/image"
)

// The two configuration formats of containerd: version 2 for 1.x, version 4 for 2.x. Both keep everything below
// one directory, so that several containerds live side by side.
var (
	classic = template.Must(template.New("containerd 1").Parse(`version = 2
root = '{{.Dir}}/root'
state = '{{.Dir}}/state'
imports = []
disabled_plugins = ['io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
[grpc]
  address = '{{.Dir}}/run/containerd.sock'
[ttrpc]
  address = '{{.Dir}}/run/containerd.sock.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '{{.Dir}}/opt'
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = '{{.Pause}}'
  disable_apparmor = {{.NoAppArmor}}
  restrict_oom_score_adj = {{.LimitedOOM}}
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = 'overlayfs'
    default_runtime_name = 'runc'
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = '{{.Dir}}/state/runc'
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '{{.Plugins}}'
    conf_dir = '{{.Dir}}/cni/conf'
`))
	current = template.Must(template.New("containerd 2").Parse(`version = 4
root = '{{.Dir}}/root'
state = '{{.Dir}}/state'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
[plugins.'io.containerd.server.v1.grpc']
  address = '{{.Dir}}/run/containerd.sock'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{{.Dir}}/run/containerd.sock.ttrpc'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '{{.Dir}}/run/s'
[plugins.'io.containerd.internal.v1.opt']
  path = '{{.Dir}}/opt'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.Pause}}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = {{.NoAppArmor}}
  restrict_oom_score_adj = {{.LimitedOOM}}
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    sandboxer = 'podsandbox'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = '{{.Dir}}/state/runc'
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{{.Plugins}}']
    conf_dir = '{{.Dir}}/cni/conf'
    use_internal_loopback = true
`))
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
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Dir": dir, "Plugins": plugins, "Pause": image.PauseRef,
		"LimitedOOM": limitedOOM, "NoAppArmor": !hasAppArmor()})
	if err != nil {
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	return b.Bytes(), nil
}

// cniConfig is the pod network: a bridge on the node, addresses from its own range, host ports by nftables or
// iptables, whichever the plugin finds.
func cniConfig(dir string, pods netip.Prefix) ([]byte, error) {
	return json.MarshalIndent(map[string]any{"cniVersion": "1.0.0", "name": "kloop", "plugins": []any{
		map[string]any{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
			"ipam": map[string]any{"type": "host-local", "dataDir": filepath.Join(dir, "cni/ipam"),
				"ranges": []any{[]any{map[string]any{"subnet": pods.String()}}}, "routes": []any{map[string]any{"dst": "0.0.0.0/0"}}}},
		map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
	}}, "", "  ")
}

//go:build linux

package runtime

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/node/image"
)

// The configuration of containerd 1, and of containerd 2, which reads format 3 up to 2.2 and 4 since. All keep everything below one
// directory, so that several containerds live side by side.
const (
	classic = `version = 2
root = '{dir}/root'
state = '{dir}/state'
imports = []
disabled_plugins = ['io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper',
  'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
{servers}
[plugins.'io.containerd.internal.v1.opt']
  path = '{dir}/opt'
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = '{pause}'
  enable_cdi = true
  disable_apparmor = {no-apparmor}
  restrict_oom_score_adj = {limited-oom}
  netns_mounts_under_state_dir = {own-network}
  [plugins.'io.containerd.grpc.v1.cri'.registry]
    config_path = '{registries}'
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = 'overlayfs'
    default_runtime_name = 'runc'
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
        SystemdCgroup = {systemd}
        Root = '{dir}/state/runc'
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = {plugin}
    conf_dir = '{conf}'
{patience}`
	current = `version = {format}
root = '{dir}/root'
state = '{dir}/state'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs',
  'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs',
  'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
{servers}
[plugins.'io.containerd.internal.v1.opt']
  path = '{dir}/opt'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{pause}'
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = '{registries}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = {no-apparmor}
  restrict_oom_score_adj = {limited-oom}
  netns_mounts_under_state_dir = {own-network}
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    sandboxer = 'podsandbox'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = {systemd}
      Root = '{dir}/state/runc'
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [{plugins}]
    conf_dir = '{conf}'
    use_internal_loopback = true
{patience}`
	// A containerd that starts ends the containers of a shim that does not answer in time, and takes the state of a task that does not for
	// unknown: its own five and two seconds are less than a busy machine can take.
	patience = `[timeouts]
  'io.containerd.timeout.shim.load' = '30s'
  'io.containerd.timeout.task.state' = '10s'
`
	serversClassic = `[grpc]
  address = '{dir}/run/containerd.sock'
[ttrpc]
  address = '{dir}/run/containerd.sock.ttrpc'`
	serversCurrent = `[plugins.'io.containerd.server.v1.grpc']
  address = '{dir}/run/containerd.sock'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{dir}/run/containerd.sock.ttrpc'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '{dir}/run/s'`
)

// format is that of the configuration which a containerd reads. It tells its version as
// "containerd github.com/containerd/containerd 1.6.20~ds1 …".
func format(version string) int {
	f := strings.Fields(version)
	if len(f) < 3 {
		return 2
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(f[2], "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	switch {
	case major == "1":
		return 2
	case major == "2" && (minor == "0" || minor == "1" || minor == "2"):
		return 3
	}
	return 4
}

// containerdConfig writes the configuration of a containerd that keeps to c.Dir. plugins are the directories of network plugins; containerd
// 1 knows the first only.
func containerdConfig(c Config, plugins []string, format int, limitedOOM bool) ([]byte, error) {
	t, servers := classic, serversClassic
	if format > 2 {
		t = current
	}
	if format > 3 {
		servers = serversCurrent
	}
	t = strings.NewReplacer("{servers}", servers, "{patience}", patience).Replace(t)
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	c.Dir = dir
	return []byte(strings.NewReplacer("{dir}", dir, "{format}", strconv.Itoa(format), "{conf}", c.CNIDir(), "{plugin}", "'"+plugins[0]+"'",
		"{plugins}", "'"+strings.Join(plugins, "', '")+"'", "{own-network}", strconv.FormatBool(!c.Foreign), "{pause}", image.PauseRef,
		"{registries}", c.registries(), "{systemd}", strconv.FormatBool(c.SystemdCgroup),
		"{limited-oom}", strconv.FormatBool(limitedOOM), "{no-apparmor}", strconv.FormatBool(!hasAppArmor())).Replace(t)), nil
}

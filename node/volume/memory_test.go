package volume

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mountedWith returns the options of the file system that is mounted on the path.
func mountedWith(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == path {
			return "," + f[3] + ","
		}
	}
	t.Fatalf("nothing is mounted on %s", path)
	return ""
}

// Volumes in memory are as large as what the pod may use of it at most, and are not swapped out where the kernel knows how.
func TestMemoryOfVolumes(t *testing.T) {
	needRoot(t)
	const mebi = 1 << 20
	for _, c := range []struct {
		name, limits, pod, volume, want string
		node                            int64
	}{
		{"of the node", "", "", "emptyDir: {medium: Memory}", "size=65536k", 64 * mebi},
		{"of the containers", "{limits: {memory: 16Mi}}", "", "emptyDir: {medium: Memory}", "size=16384k", 64 * mebi},
		{"of the pod", "{limits: {memory: 16Mi}}", "{limits: {memory: 32Mi}}", "emptyDir: {medium: Memory}", "size=32768k", 64 * mebi},
		{"its own", "{limits: {memory: 16Mi}}", "", "emptyDir: {medium: Memory, sizeLimit: 1Mi}", "size=1024k", 64 * mebi},
		{"its own is more", "{limits: {memory: 16Mi}}", "", "emptyDir: {medium: Memory, sizeLimit: 1Gi}", "size=16384k", 64 * mebi},
		{"nobody knows", "", "", "emptyDir: {medium: Memory}", "", 0},
		{"secret", "{limits: {memory: 16Mi}}", "", "secret: {secretName: pass}", "size=16384k", 64 * mebi},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mounter(t, cluster())
			m.cfg.Memory = func() int64 { return c.node }
			spec := "{volumes: [{name: x, " + c.volume + "}], containers: [{name: a, volumeMounts: [{name: x, mountPath: /x}]"
			if c.limits != "" {
				spec += ", resources: " + c.limits
			}
			spec += "}]"
			if c.pod != "" {
				spec += ", resources: " + c.pod
			}
			paths, err := m.Prepare(t.Context(), pod(t, spec+"}"))
			if err != nil {
				t.Fatal(err)
			}
			got := mountedWith(t, paths["x"])
			if c.want != "" && !strings.Contains(got, ","+c.want+",") || c.want == "" && strings.Contains(got, "size=") {
				t.Errorf("mounted with %s, want %q", got, c.want)
			}
			if knows := noSwap(t); knows != strings.Contains(got, ",noswap,") {
				t.Errorf("mounted with %s; the kernel knows of noswap: %v", got, knows)
			}
			if strings.Contains(got, "nodev") || strings.Contains(got, "nosuid") {
				t.Errorf("mounted with %s: not as other volumes are", got)
			}
		})
	}
}

// noSwap says whether the kernel has file systems in memory that are not swapped out.
func noSwap(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "noswap"); err != nil {
		return false
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	return true
}

package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/test/need"
)

func TestHugePageSize(t *testing.T) {
	const two, both = `resources: {requests: {hugepages-2Mi: 4Mi}}`, `resources: {requests: {hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi}}`
	for _, tt := range []struct {
		medium, spec string
		want         int64
		err          string
	}{
		{"HugePages", `containers: [{name: c, ` + two + `}]`, 2 << 20, ""},
		{"HugePages", `containers: [{name: c}], initContainers: [{name: i, ` + two + `}]`, 2 << 20, ""},
		{"HugePages", `containers: [{name: c}], ` + two, 2 << 20, ""},
		{"HugePages", `containers: [{name: c, ` + both + `}]`, 0, "several sizes"},
		{"HugePages", `containers: [{name: c, resources: {requests: {memory: 4Mi}}}]`, 0, "no container requests"},
		{"HugePages-1Gi", `containers: [{name: c, ` + both + `}]`, 1 << 30, ""},
		{"HugePages-1Gi", `containers: [{name: c, ` + two + `}]`, 0, "of this size"},
		{"HugePages-1e999999999", `containers: [{name: c, ` + two + `}]`, 0, "HugePages-1e9"},
		{"HugePages-x", `containers: [{name: c, ` + two + `}]`, 0, "HugePages-x"},
	} {
		t.Run(tt.medium, func(t *testing.T) {
			got, err := hugePages(corev1.StorageMedium(tt.medium), pod(t, `{`+tt.spec+`}`))
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s, %s: %d, %v", tt.medium, tt.spec, got, err)
			}
		})
	}
}

// TestHugePages mounts one, twice as after a restart, and takes it away.
func TestHugePages(t *testing.T) {
	needRoot(t)
	sizes, err := filepath.Glob("/sys/kernel/mm/hugepages/hugepages-*kB")
	if err == nil && len(sizes) == 0 {
		err = os.ErrNotExist
	}
	need.Have(t, need.Root, err)
	var kib int64
	if _, err := fmt.Sscanf(filepath.Base(sizes[0]), "hugepages-%dkB", &kib); err != nil {
		t.Fatal(err)
	}
	m := mounter(t, cluster())
	p := pod(t, fmt.Sprintf(`{securityContext: {fsGroup: 4321}, volumes: [{name: h, emptyDir: {medium: HugePages}}],
		containers: [{name: c, resources: {requests: {hugepages-%dKi: 0}}}]}`, kib))
	for range 2 {
		paths, err := m.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(paths["h"], &st); err != nil || uint32(st.Type) != unix.HUGETLBFS_MAGIC || st.Bsize != kib<<10 {
			t.Errorf("%+v, %v", st, err)
		}
		info, err := os.Stat(paths["h"])
		if err != nil {
			t.Fatal(err)
		}
		if gid, _ := owner(info); gid != 4321 || info.Mode().Perm() != 0o777 {
			t.Errorf("group %d, mode %v", gid, info.Mode())
		}
		if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Count(string(mounts), paths["h"]+" ") != 1 {
			t.Errorf("mounted more than once: %v\n%s", err, mounts)
		}
	}
	if err := m.Remove(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
}

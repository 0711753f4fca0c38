package volume

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kloop-dev/kloop/test/need"
)

// The links of a volume belong to whom its files do: some systems follow those of others nowhere.
func TestOwnersOfLinks(t *testing.T) {
	need.BeRoot(t)
	path := t.TempDir()
	files := map[string]file{"token": {data: []byte("x"), mode: 0o600, user: 1000}, "plain": {data: []byte("y"), mode: 0o644, user: -1}}
	if err := replace(path, files, new(int64(2000))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]uint32{"..data": {0, 2000}, "token": {1000, 2000}, "plain": {0, 2000}} {
		t.Run(name, func(t *testing.T) {
			info, err := os.Lstat(filepath.Join(path, name))
			if err != nil {
				t.Fatal(err)
			}
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || [2]uint32{st.Uid, st.Gid} != want {
				t.Errorf("%+v, want %v", info.Sys(), want)
			}
		})
	}
}

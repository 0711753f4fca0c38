package machine

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// layered says why images can't be unpacked below a directory: no overlay goes on top of another, which a container's own files are.
func layered(dir string) error {
	var fs unix.Statfs_t
	for ; dir != ""; dir = filepath.Dir(dir) {
		err := unix.Statfs(dir, &fs)
		if err == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
			return fmt.Errorf("%s is on an overlay, as a container's own files are: put the data directory on a volume, as by docker run "+
				"-v kloop:/var/lib/kloop", dir)
		}
		if !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			return nil // where it is, or where nobody can tell
		}
	}
	return nil
}

//go:build unix

package clusters

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// own gives a kubeconfig that was replaced back to its owner; a new one goes to the user who called sudo, with its directory.
func own(before fs.FileInfo, path, fresh string) error {
	if before != nil {
		if st, ok := before.Sys().(*syscall.Stat_t); ok && os.Getuid() == 0 {
			return os.Chown(path, int(st.Uid), int(st.Gid))
		}
		return nil
	}
	uid, gid, ok := sudoer()
	if !ok {
		return nil
	}
	err := os.Chown(path, uid, gid)
	if fresh != "" {
		err = errors.Join(err, os.Chown(fresh, uid, gid))
	}
	return err
}

// homeOf is a user's home directory; "" if it is not known.
func homeOf(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.HomeDir
}

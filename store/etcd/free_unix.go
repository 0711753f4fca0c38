//go:build unix

package etcd

import "golang.org/x/sys/unix"

// freeOn is the number of bytes that the file system of a directory has left for this process's user.
func freeOn(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return st.Bavail * uint64(st.Bsize), err
}

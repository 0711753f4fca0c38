package pressure

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Read asks the kernel what is left. What can't be read is left out. imagefs is a directory on the disk of images; "": the same as
// nodefs.
func Read(nodefs, imagefs string) map[Signal]Reading {
	now := map[Signal]Reading{}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if m := MemInfo(string(data)); m["MemTotal"] > 0 {
			now[MemoryAvailable] = Reading{int64(m["MemAvailable"]), int64(m["MemTotal"])}
		}
	}
	disk := func(dir string, bytes, inodes Signal) {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Blocks > 0 {
			now[bytes] = Reading{int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize)}
			if st.Files > 0 { // some file systems count none
				now[inodes] = Reading{int64(st.Ffree), int64(st.Files)}
			}
		}
	}
	disk(nodefs, NodefsAvailable, NodefsInodesFree)
	if imagefs == "" {
		imagefs = nodefs
	}
	disk(imagefs, ImagefsAvailable, ImagefsInodes)
	var info unix.Sysinfo_t
	if most, err := os.ReadFile("/proc/sys/kernel/pid_max"); err == nil && unix.Sysinfo(&info) == nil {
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(most)), 10, 64); err == nil {
			now[PIDAvailable] = Reading{n - int64(info.Procs), n}
		}
	}
	return now
}

// MemInfo reads /proc/meminfo: bytes by name.
func MemInfo(text string) map[string]uint64 {
	m := map[string]uint64{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			m[strings.TrimSuffix(f[0], ":")] = n << 10
		}
	}
	return m
}

// maxWalk bounds how many files of one directory are looked at: a pod must not keep the agent busy.
const maxWalk = 200000

// Walk counts the bytes that a directory takes on its disk, and its files. It stays on that disk. What goes meanwhile is not counted.
func Walk(dir string) (size, files int64) {
	var top unix.Stat_t
	if unix.Lstat(dir, &top) != nil {
		return 0, 0
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what can't be read is not counted
		if err != nil {
			return nil
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil {
			return nil
		}
		if st.Dev != top.Dev {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		size += st.Blocks * 512
		if files++; files >= maxWalk {
			return fs.SkipAll
		}
		return nil
	})
	return size, files
}

package resident

import "syscall"

// dontNeed lets the kernel take a range of a map out of this process's resident memory.
func dontNeed(from, to uintptr) error {
	if _, _, code := syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED); code != 0 {
		return code
	}
	return nil
}

package etcd

import "golang.org/x/sys/windows"

// freeOn is the number of bytes that the volume of a directory has left for this process's user.
func freeOn(dir string) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return free, err
}

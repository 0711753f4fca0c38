//go:build !linux

package etcd

// reserve does nothing here: what was accepted when the disk became full may end the process.
func reserve(string, int64) error { return nil }

// release does nothing: nothing was reserved.
func release(string) error { return nil }

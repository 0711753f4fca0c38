//go:build !linux

package cluster

// preferPublic changes nothing where no node runs: there any of the machine's addresses will do.
func preferPublic(uintptr) {}

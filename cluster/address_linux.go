package cluster

import "golang.org/x/sys/unix"

// preferPublic asks for an address that stays: a node is not known by one that changes every day (RFC 8981). Kernels that don't know the
// option (IPV6_PREFER_SRC_PUBLIC, RFC 5014) have none such.
func preferPublic(fd uintptr) {
	const public = 2
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_ADDR_PREFERENCES, public)
}

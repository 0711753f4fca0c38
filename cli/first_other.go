//go:build !linux

package cli

// first is for containers, which are Linux's.
func first([]string) (code int, ok bool) { return 0, false }

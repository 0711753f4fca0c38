//go:build !linux

package resident

// dontNeed is never called: only Linux tells a process its maps in /proc.
func dontNeed(_, _ uintptr) error { return nil }

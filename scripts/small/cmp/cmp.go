// Package cmp stands in for github.com/google/go-cmp in the kloop binary, and only there (the Makefile says so to the
// go tool). The one caller is etcd's check of its backend, which compares two maps of strings when asked to by
// ETCD_VERIFY. The real one looks methods up by reflection, for which the linker must keep every exported method of
// every type that is ever in an interface: 10 MB, a sixth of the binary. A second caller of anything else does not compile.
package cmp

import (
	"fmt"
	"reflect"
)

// Diff is empty if x and y are deeply equal, and else both of them, for a person to read.
func Diff(x, y any) string {
	if reflect.DeepEqual(x, y) {
		return ""
	}
	return fmt.Sprintf("- %v\n+ %v\n", x, y)
}

// Package resident lets go of pages of files that this process has mapped: they leave its resident memory, stay in the kernel's cache,
// shared and free to take, and come back with a minor fault each when they are touched.
package resident

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// LetGo lets go of what is mapped of the file with the permissions of proc(5), "r--s" or others. The file's name has no symbolic
// links in it. Of private maps those stay that have pages of this process's own, which are not in the file. On systems that don't tell a
// process its maps it does nothing.
func LetGo(file string, permissions ...string) error {
	table := "/proc/self/maps"
	if slices.ContainsFunc(permissions, private) {
		table = "/proc/self/smaps" // for which the kernel looks at every page that there is
	}
	maps, err := os.ReadFile(table)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the maps of %s: %w", file, err)
	}
	for from, to := range mapped(maps, file, permissions) {
		if err := dontNeed(from, to); err != nil {
			return fmt.Errorf("let go of the map of %s: %w", file, err)
		}
	}
	return nil
}

func private(permissions string) bool { return strings.HasSuffix(permissions, "p") }

// mapped are the addresses at which a file is mapped so, by the tables that proc(5) describes. Each map has a line, and in smaps figures
// behind it, without which no private one is believed to be unchanged.
func mapped(table []byte, file string, permissions []string) func(yield func(from, to uintptr) bool) {
	return func(yield func(from, to uintptr) bool) {
		var from, to uintptr
		for line := range bytes.Lines(table) {
			name, rest, _ := bytes.Cut(line, []byte(" "))
			unchanged := string(name) == "Anonymous:" && string(bytes.TrimSpace(rest)) == "0 kB"
			if !bytes.HasSuffix(name, []byte(":")) {
				from, to = 0, 0
				perms, rest, _ := bytes.Cut(rest, []byte(" "))
				if slices.Contains(permissions, string(perms)) && bytes.HasSuffix(bytes.TrimSpace(rest), []byte(" "+file)) {
					from, to = span(name)
				}
				unchanged = !private(string(perms))
			}
			if unchanged && to > from {
				if !yield(from, to) {
					return
				}
				from, to = 0, 0
			}
		}
	}
}

// span reads addresses; 0 and 0 when they are none.
func span(at []byte) (from, to uintptr) {
	first, end, _ := bytes.Cut(at, []byte("-"))
	a, err := strconv.ParseUint(string(first), 16, 64)
	b, err2 := strconv.ParseUint(string(end), 16, 64)
	if err != nil || err2 != nil {
		return 0, 0
	}
	return uintptr(a), uintptr(b)
}

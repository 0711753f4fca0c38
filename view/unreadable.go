package view

import (
	"fmt"
	"strings"
)

// unreadable says that the store itself could not tell the value, as when it was encrypted with an unknown key.
func (r raw) unreadable() bool { return r.err != nil && r.value == nil }

// keep notes a value that can't be shown. It needs feed.
func (v *View) keep(key string, r raw) {
	v.drop(key)
	v.raw[key] = r
	if r.unreadable() {
		v.sealed.Add(1)
	}
}

// drop forgets what keep noted. It needs feed.
func (v *View) drop(key string) {
	if v.raw[key].unreadable() {
		v.sealed.Add(-1)
	}
	delete(v.raw, key)
}

// Unreadable returns an error that names the first key, of those at or below the path, that stands in the store with a
// value that can't be read; nil when there is none. A path that ends in / stands for all below it. Such an object is missing from all reads, though it is there: who
// answers that something does not exist, or lists, asks this first. It costs nothing while all can be read.
func (v *View) Unreadable(path string) error {
	if v.sealed.Load() == 0 {
		return nil
	}
	v.feed.Lock()
	defer v.feed.Unlock()
	first := ""
	for key, r := range v.raw {
		if r.unreadable() && within(key, path) && (first == "" || key < first) {
			first = key
		}
	}
	if first == "" {
		return nil
	}
	return fmt.Errorf("read the stored value of %s: %w", first, v.raw[first].err)
}

func within(key, path string) bool {
	return key == path || strings.HasSuffix(path, "/") && strings.HasPrefix(key, path)
}

package view

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// hidden are the stored values that the view can't show. It is guarded by the view's feed.
type hidden struct {
	byKey  map[string]raw
	sealed atomic.Int64 // how many of them can't be read at all; may be read without feed
}

// raw is a value that the view holds but can't show: its kind is not known, or it does not decode.
type raw struct {
	value []byte
	rev   int64
	err   error // nil: the kind is not known
}

// unreadable says that the store itself could not tell the value, as when it was encrypted with an unknown key.
func (r raw) unreadable() bool { return r.err != nil && r.value == nil }

// keep notes a value that can't be shown.
func (h *hidden) keep(key string, r raw) {
	h.drop(key)
	h.byKey[key] = r
	if r.unreadable() {
		h.sealed.Add(1)
	}
}

// drop forgets what keep noted.
func (h *hidden) drop(key string) {
	if len(h.byKey) == 0 {
		return
	}
	if h.byKey[key].unreadable() {
		h.sealed.Add(-1)
	}
	delete(h.byKey, key)
}

// reset forgets all.
func (h *hidden) reset() {
	h.byKey = map[string]raw{}
	h.sealed.Store(0)
}

// Broken is a stored value that does not decode. It is missing from all reads until it is written again.
type Broken struct {
	Key string
	Rev int64
	Err error
}

// Broken lists the values that do not decode, by key.
func (v *View) Broken() (list []Broken) {
	v.feed.Lock()
	defer v.feed.Unlock()
	for key, r := range v.hidden.byKey {
		if r.err != nil {
			list = append(list, Broken{Key: key, Rev: r.rev, Err: r.err})
		}
	}
	coldsort.Func(list, func(a, b Broken) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// Unreadable returns an error that names the first key, of those at or below the path, that stands in the store with a
// value that can't be read; nil when there is none. A path that ends in / stands for all below it. Such an object is missing
// from all reads, though it is there: ask this before an answer that something does not exist, or a list. It costs nothing
// while all can be read.
func (v *View) Unreadable(path string) error {
	if v.hidden.sealed.Load() == 0 {
		return nil
	}
	v.feed.Lock()
	defer v.feed.Unlock()
	first := ""
	for key, r := range v.hidden.byKey {
		if r.unreadable() && within(key, path) && (first == "" || key < first) {
			first = key
		}
	}
	if first == "" {
		return nil
	}
	return fmt.Errorf("read the stored value of %s: %w", first, v.hidden.byKey[first].err)
}

func within(key, path string) bool {
	return key == path || strings.HasSuffix(path, "/") && strings.HasPrefix(key, path)
}

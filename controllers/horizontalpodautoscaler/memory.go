package horizontalpodautoscaler

import (
	"sync"
	"time"

	"github.com/kloop-dev/kloop/loop"
)

// longest is the longest window or period that an autoscaler may name.
const longest = time.Hour

// memory holds what the autoscalers recommended and did within the longest window.
type memory struct {
	mu   sync.Mutex
	keys map[loop.Key]*history
}

// A history is of one autoscaler.
type history struct {
	advice []point // sizes that the metrics called for
	scales []point // changes of size
}

type point struct {
	n  int32
	at time.Time
}

func newMemory() *memory { return &memory{keys: map[loop.Key]*history{}} }

// past is the autoscaler's history, its own copy. One without a history begins with its present size: it stays for a
// window.
func (m *memory) past(key loop.Key, current int32, now time.Time) history {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.keys[key]
	if h == nil {
		h = &history{advice: []point{{current, now}}}
		m.keys[key] = h
	}
	h.advice, h.scales = since(h.advice, now.Add(-longest)), since(h.scales, now.Add(-longest))
	return *h
}

// recommended notes what was called for; nil: nothing could be told. What is older than the windows of the behavior is forgotten: one
// that is widened later does not bring it back.
func (m *memory) recommended(key loop.Key, n *int32, windows time.Duration, now time.Time) {
	if n == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.keys[key]; h != nil {
		h.advice = thin(append(since(h.advice, now.Add(-windows)), point{*n, now}))
	}
}

// scaled notes a change of size.
func (m *memory) scaled(key loop.Key, by int32, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.keys[key]; h != nil && by != 0 {
		h.scales = append(h.scales, point{by, now})
	}
}

func (m *memory) forget(key loop.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, key)
}

// since returns a copy of the points that are not older than a time.
func since(list []point, from time.Time) (out []point) {
	for _, p := range list {
		if !p.at.Before(from) {
			out = append(out, p)
		}
	}
	return out
}

// thin drops the middle of three equal ones in a row: the outer two bound every window as well.
func thin(list []point) []point {
	if n := len(list); n >= 3 && list[n-1].n == list[n-2].n && list[n-2].n == list[n-3].n {
		list[n-2] = list[n-1]
		return list[:n-1]
	}
	return list
}

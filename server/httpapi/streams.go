package httpapi

import (
	"context"
	"sync"
)

// streams are the long-running requests under way, so that a shutdown can end them without a goroutine each.
type streams struct {
	mu    sync.Mutex
	next  int
	open  map[int]context.CancelFunc
	ended bool
}

// maxStreams bounds how many streams there are at once: ten or so of each of ten thousand nodes. A watch at rest costs
// some tens of KB.
const maxStreams = 100000

// join returns a context that ends with the server. leave must be called when the stream is over. ok is false when there
// are too many streams.
func (s *streams) join(parent context.Context) (ctx context.Context, leave func(), ok bool) {
	ctx, cancel := context.WithCancel(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		cancel()
		return ctx, cancel, true
	}
	if len(s.open) >= maxStreams {
		cancel()
		return nil, nil, false
	}
	if s.open == nil {
		s.open = map[int]context.CancelFunc{}
	}
	s.next++
	id := s.next
	s.open[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		delete(s.open, id)
		s.mu.Unlock()
	}, true
}

func (s *streams) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, cancel := range s.open {
		cancel()
	}
}

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

// join returns a context that ends with the server. leave must be called when the stream is over.
func (s *streams) join(parent context.Context) (ctx context.Context, leave func()) {
	ctx, cancel := context.WithCancel(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		cancel()
		return ctx, cancel
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
	}
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

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
	going bool // it will end soon, and says so

	most     int    // that were open at once since relieved was called
	relieved func() // called when many have ended; nil: nobody wants to know
}

// maxStreams bounds how many streams there are at once: ten or so of each of ten thousand nodes. A watch at rest costs
// some tens of KB.
const maxStreams = 100000

// manyStreams is the number that must have ended, and half of all with them, for the memory that they held to be worth a look.
const manyStreams = 256

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
	s.most = max(s.most, len(s.open))
	return ctx, func() {
		cancel()
		s.leave(id)
	}, true
}

func (s *streams) leave(id int) {
	s.mu.Lock()
	delete(s.open, id)
	many := s.relieved != nil && s.most-len(s.open) >= max(manyStreams, s.most/2)
	if many {
		s.most = len(s.open)
	}
	s.mu.Unlock()
	if many {
		s.relieved()
	}
}

func (s *streams) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// leaving says that the server is to get no new clients: it ends, or will soon.
func (s *streams) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.going
}

// announce has leaving say so.
func (s *streams) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.going = true
}

func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, cancel := range s.open {
		cancel()
	}
}

package server

import "github.com/kloop-dev/kloop/resource"

// Sitting counts the watches of a kind that wait together; -1: nobody watches it.
func Sitting(s *Server, k resource.Kind) int {
	s.audiences.mu.Lock()
	defer s.audiences.mu.Unlock()
	a := s.audiences.of[audienceKey{k, k.Info().GVK}]
	if a == nil {
		return -1
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, row := range a.seats {
		n += len(row)
	}
	return n
}

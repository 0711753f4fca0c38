package token

import (
	"crypto/sha256"
	"sync"
)

// maxSeen bounds the memory for verified tokens: some 300 bytes each.
const maxSeen = 8192

// seen remembers the claims of tokens whose signature was good. What they are bound to is looked at every
// time. When it is full an arbitrary entry goes: being wrong costs one signature check.
type seen struct {
	mu sync.RWMutex
	m  map[[sha256.Size]byte]*verified
}

// verified is a token whose signature is good. It is shared and never changes.
type verified struct {
	claims *Claims
	legacy *legacyClaims // instead of claims
}

func (s *seen) get(key [sha256.Size]byte) *verified {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[key]
}

func (s *seen) put(key [sha256.Size]byte, v *verified) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[[sha256.Size]byte]*verified{}
	}
	for old := range s.m {
		if len(s.m) < maxSeen {
			break
		}
		delete(s.m, old)
	}
	s.m[key] = v
}

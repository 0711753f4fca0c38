package bgp

import (
	"context"
	"net/netip"
	"sync"
)

// Own has what a speaker says of its machine.
type Own struct {
	RouterID  netip.Addr   // IPv4
	Addresses []netip.Addr // next hops, in families that a session itself does not have
}

// A Speaker keeps a session with each of its peers. It is safe for concurrent use.
type Speaker struct {
	own  Own
	told func(Peer, State)

	mu       sync.Mutex
	sessions map[Peer]*session
	closed   bool
}

// NewSpeaker returns one without peers. told is called whenever a session changes, by its own goroutine; it must not call the speaker.
func NewSpeaker(own Own, told func(Peer, State)) *Speaker {
	return &Speaker{own: own, told: told, sessions: map[Peer]*session{}}
}

// Set names the peers and the routes for each, from now on. Sessions with peers that are the same go on; those with others end, and
// their routes with them.
func (s *Speaker) Set(want map[Peer][]Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	var ended []*session
	for p, old := range s.sessions {
		if _, wanted := want[p]; !wanted {
			old.drop()
			ended = append(ended, old)
			delete(s.sessions, p)
		}
	}
	for _, e := range ended { // a session with the same router, but another password or AS, must not meet the old one
		<-e.done
	}
	for p, routes := range want {
		if old := s.sessions[p]; old != nil {
			old.set(routes)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		n := &session{peer: p, own: s.own, wake: make(chan struct{}, 1), routes: routes, cancel: cancel, done: make(chan struct{}),
			told: func(st State) { s.told(p, st) }}
		s.sessions[p] = n
		go n.run(ctx)
	}
}

// Close ends all sessions: with graceful restart peers keep our routes for two minutes, until we are back.
func (s *Speaker) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, n := range s.sessions {
		n.cancel()
	}
	for _, n := range s.sessions {
		<-n.done
	}
}

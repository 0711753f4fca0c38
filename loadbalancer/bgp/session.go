package bgp

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

const (
	connectTime = 10 * time.Second // for a connection
	openTime    = 30 * time.Second // for the peer's OPEN, and again for its consent
	writeTime   = 30 * time.Second // for one message
	lastWord    = time.Second      // for the one that ends a session
	slowest     = 30 * time.Second // between two attempts
)

// A session is one peer, whether or not there is a connection.
type session struct {
	peer   Peer
	own    Own
	told   func(State)
	wake   chan struct{} // there are other routes
	cancel context.CancelFunc
	done   chan struct{}
	last   State // that was told; of the session's goroutine

	mu     sync.Mutex
	routes []Route
	gone   bool // the peer is no longer ours to speak to, as opposed to this process ending
}

// set gives the session other routes.
func (s *session) set(routes []Route) {
	s.mu.Lock()
	s.routes = routes
	s.mu.Unlock()
	poke(s.wake)
}

// poke fills a channel that has room for one: what waits there stands for this poke too.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *session) wanted() []Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes
}

// drop ends the session because its peer is none any more.
func (s *session) drop() {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.cancel()
}

// farewell is the reason that the peer hears as the session is cancelled. With graceful restart there is none when this process ends:
// it then keeps our routes until we are back.
func (s *session) farewell() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone:
		return refuse(6, 3, "the peer was taken out of the configuration")
	case s.peer.Graceful:
		return nil
	}
	return refuse(6, 2, "kloop ends")
}

func (s *session) tell(st State) {
	if st != s.last {
		s.last = st
		s.told(st)
	}
}

// run connects again and again until ctx ends.
func (s *session) run(ctx context.Context) {
	defer close(s.done)
	pause := time.Second
	for fresh := true; ctx.Err() == nil; {
		began := time.Now()
		err := s.live(ctx, fresh, func() { fresh = false })
		if ctx.Err() != nil {
			return
		}
		s.tell(State{Trouble: err.Error()})
		if time.Since(began) > slowest {
			pause = time.Second
		}
		wait := pause
		if s.peer.Connect > 0 {
			wait = s.peer.Connect
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait - rand.N(wait/4)): // not all nodes at once
		}
		pause = min(2*pause, slowest)
	}
}

// live is one connection, from its beginning to its end. up is called once the session is established. The error says why it ended.
func (s *session) live(ctx context.Context, fresh bool, up func()) error {
	l, err := connect(ctx, s.peer)
	if err != nil {
		return err
	}
	left := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(left)
		l.leave(s.farewell())
	})
	defer func() {
		if !stop() {
			<-left // the last word is said before the connection closes
		}
		l.Close()
	}()
	theirs, err := s.greet(l, fresh)
	if err != nil {
		return l.end(err)
	}
	up()
	return l.end(s.talk(l, theirs))
}

// greet exchanges OPENs and consents.
func (s *session) greet(l *link, fresh bool) (theirs open, err error) {
	id := s.peer.RouterID
	if !id.IsValid() {
		id = s.own.RouterID
	}
	ours := open{as: s.peer.MyAS, hold: s.peer.hold(), id: id, offers: s.peer.families(), restart: s.peer.Graceful, fresh: fresh}
	if err := l.say(ours.bytes()); err != nil {
		return theirs, err
	}
	typ, body, err := l.next(openTime)
	if err == nil && typ != typeOpen {
		err = refuse(5, 1, "a message of type %d where an OPEN is due", typ)
	}
	if err != nil {
		return theirs, err
	}
	if theirs, err = readOpen(body); err != nil {
		return theirs, err
	}
	if !s.peer.welcome(theirs.as) {
		return theirs, refuse(2, 2, "the peer says that it is of AS %d: compare peerASN with its configuration", theirs.as)
	}
	if err := l.say(frame(typeKeepalive, nil)); err != nil {
		return theirs, err
	}
	typ, _, err = l.next(openTime)
	if err == nil && typ != typeKeepalive {
		err = refuse(5, 2, "a message of type %d where a KEEPALIVE is due", typ)
	}
	return theirs, err
}

// pace returns after how much silence the session is over, and how often we say something; 0, 0: neither.
func (p Peer) pace(theirs time.Duration) (hold, beat time.Duration) {
	if hold = min(p.hold(), theirs); hold <= 0 {
		return 0, 0
	}
	if beat = hold / 3; p.Keepalive > 0 {
		beat = min(beat, p.Keepalive)
	}
	return hold, beat
}

// talk keeps the session up and says what is to be said, until it ends.
func (s *session) talk(l *link, theirs open) error {
	hold, every := s.peer.pace(theirs.hold)
	heard, again := make(chan error, 1), make(chan struct{}, 1)
	go func() { heard <- l.listen(hold, func() { poke(again) }) }()
	var beat <-chan time.Time
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		beat = t.C
	}
	sp := s.speech(l, theirs)
	sent, err := s.all(l, sp)
	if err != nil {
		return err
	}
	for {
		select {
		case err := <-heard:
			return err
		case <-beat:
			err = l.say(frame(typeKeepalive, nil))
		case <-again:
			sent, err = s.all(l, sp)
		case <-s.wake:
			sent, err = s.update(l, sp, sent)
		}
		if err != nil {
			return err
		}
	}
}

// all says everything, and that it is everything: a peer that kept routes from before forgets the others.
func (s *session) all(l *link, sp speech) (map[netip.Prefix]string, error) {
	sent, err := s.update(l, sp, nil)
	if err != nil {
		return sent, err
	}
	for _, afi := range s.peer.families() {
		if sp.takes[afi] {
			if err := l.say(endOfRIB(afi)); err != nil {
				return sent, err
			}
		}
	}
	return sent, nil
}

// update says what changed.
func (s *session) update(l *link, sp speech, sent map[netip.Prefix]string) (map[netip.Prefix]string, error) {
	list, now := sp.difference(sent, s.wanted())
	for _, m := range list {
		if err := l.say(m); err != nil {
			return sent, err
		}
	}
	s.tell(State{Established: true, Routes: len(now)})
	return now, nil
}

// speech returns the manner of speaking in this session. Next hops are the connection's own end, and in the other family the node's
// address.
func (s *session) speech(l *link, theirs open) speech {
	sp := speech{myAS: s.peer.MyAS, internal: theirs.as == s.peer.MyAS, wide: theirs.wide, takes: theirs.families,
		hops: map[uint16]netip.Addr{}}
	at, _ := netip.ParseAddrPort(l.LocalAddr().String())
	for _, a := range append([]netip.Addr{at.Addr().Unmap().WithZone("")}, s.own.Addresses...) {
		for _, afi := range s.peer.families() {
			if a.IsValid() && afi == afiOf(a) && theirs.families[afi] && !sp.hops[afi].IsValid() && !a.IsLinkLocalUnicast() {
				sp.hops[afi] = a
			}
		}
	}
	return sp
}

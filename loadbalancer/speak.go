package loadbalancer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loadbalancer/bgp"
	"github.com/kloop-dev/kloop/resource"
)

// secretPause is after how long a password that could not be read is asked for again.
const secretPause = 5 * time.Second

// lastWords bounds how often the end is written into the Lease: others write there too, and there is nobody left to try again later.
const lastWords = 5

// A speaking is the running loop that announces by BGP. One goroutine owns it; sessions reach it by states alone.
type speaking struct {
	cfg     Config
	speaker *bgp.Speaker
	lease   *coordinationv1.Lease // of this node; nil: it has nothing to announce
	planned string                // the plan that is in force, as text
	lost    map[string]string     // peers that nobody can speak to, and why
	again   time.Time             // not before is the plan, or the Lease, tried again; zero: when something changes
	names   map[string]bool       // of the plan's peers

	mu     sync.Mutex
	states map[string]bgp.State // by the peer's name
	moved  chan struct{}        // states did
}

// Speak tells routers the ways that the Lease of this node says (wellknown.BGPLease), until ctx ends, and writes into it how the sessions
// are. It opens nothing while there is no such Lease. While the API is out of reach all stays as it is.
func Speak(ctx context.Context, cfg Config) error {
	s := &speaking{cfg: cfg, states: map[string]bgp.State{}, moved: make(chan struct{}, 1)}
	s.speaker = bgp.NewSpeaker(s.own(), func(p bgp.Peer, st bgp.State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.states[p.Name] = st
		select {
		case s.moved <- struct{}{}:
		default: // the one before has not been taken up: it stands for this one too
		}
	})
	defer s.leave()
	batches := make(chan client.Batch)
	go client.Follow(ctx, cfg.Client.Feed(kinds.Leases), batches)
	for {
		var late <-chan time.Time
		if !s.again.IsZero() {
			late = time.After(max(time.Until(s.again), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return nil
		case b := <-batches:
			s.lease = resource.Get(b.Read, kinds.Leases, wellknown.AnnounceSpace, wellknown.BGPLease(cfg.Node))
		case <-s.moved:
		case <-late:
		}
		s.again = time.Time{}
		s.obey(ctx)
		if s.report(ctx, s.sessions()) != nil { // a conflict: the feed shows the Lease as it is
			s.again = time.Now().Add(apiPause)
		}
	}
}

// leave ends all sessions, and says so.
func (s *speaking) leave() {
	s.speaker.Close()
	ended := s.sessions()
	for name := range ended {
		ended[name] = wellknown.BGPSession{Trouble: "the node's agent has stopped"}
	}
	for range lastWords {
		if s.report(context.Background(), ended) == nil {
			return
		}
		s.reread(context.Background())
	}
}

// reread takes the Lease from the API: the feed may be behind, or have ended. Without an answer the one that is known stays.
func (s *speaking) reread(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	obj, err := s.cfg.Client.Get(ctx, kinds.Leases, wellknown.AnnounceSpace, wellknown.BGPLease(s.cfg.Node))
	switch {
	case err == nil:
		s.lease = resource.As[*coordinationv1.Lease](obj)
	case apierrors.IsNotFound(err):
		s.lease = nil
	}
}

// own has what a speaker says of its machine. A node without an IPv4 address has a router ID all the same.
func (s *speaking) own() bgp.Own {
	list := s.cfg.Addresses
	if len(list) == 0 {
		list = []netip.Addr{s.cfg.Address}
	}
	sum := sha256.Sum256([]byte(s.cfg.Node))
	own := bgp.Own{RouterID: netip.AddrFrom4([4]byte(sum[:4])), Addresses: list}
	if i := slices.IndexFunc(list, netip.Addr.Is4); i >= 0 {
		own.RouterID = list[i]
	}
	return own
}

// obey brings the speaker to the plan.
func (s *speaking) obey(ctx context.Context) {
	text := ""
	if s.lease != nil {
		text = s.lease.Annotations[wellknown.BGPPlanned]
	}
	if text == s.planned && len(s.lost) == 0 {
		return
	}
	var plan wellknown.BGPPlan
	if text != "" {
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			s.cfg.Log.Warn("read what to announce by BGP; what was announced before stays", "object", "lease/"+s.lease.Name, "err", err)
			return
		}
	}
	want, lost := map[bgp.Peer][]bgp.Route{}, map[string]string{}
	s.names = map[string]bool{}
	for _, p := range plan.Peers {
		s.names[p.Name] = true
		peer, err := s.peer(ctx, p)
		if err != nil {
			lost[p.Name] = err.Error()
			continue
		}
		want[peer] = routesOf(plan, p.Name)
	}
	if len(lost) > 0 {
		s.again = time.Now().Add(secretPause)
	}
	s.planned, s.lost = text, lost
	s.speaker.Set(want)
}

// peer is a peer of the plan for the speaker. Its password may have to be read.
func (s *speaking) peer(ctx context.Context, p wellknown.BGPPeer) (out bgp.Peer, err error) {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	out = bgp.Peer{Name: p.Name, Port: p.Port, MyAS: p.MyAS, PeerAS: p.PeerAS, Internal: p.Internal, Password: p.Password,
		MultiHop: p.MultiHop, Graceful: p.Graceful, Both: p.Both, Hold: ms(p.Hold), Keepalive: ms(p.Keepalive), Connect: ms(p.Connect)}
	for _, a := range []struct {
		text string
		to   *netip.Addr
	}{{p.Address, &out.Address}, {p.Source, &out.Source}, {p.RouterID, &out.RouterID}} {
		if a.text != "" {
			if *a.to, err = netip.ParseAddr(a.text); err != nil {
				return out, err
			}
		}
	}
	if p.Secret == "" {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	obj, err := s.cfg.Client.Get(ctx, kinds.Secrets, wellknown.AnnounceSpace, p.Secret)
	if err != nil {
		return out, fmt.Errorf("read the password from the Secret %s/%s: %w", wellknown.AnnounceSpace, p.Secret, err)
	}
	out.Password = string(resource.As[*corev1.Secret](obj).Data[corev1.BasicAuthPasswordKey])
	return out, nil
}

// routesOf are the routes for one peer.
func routesOf(plan wellknown.BGPPlan, peer string) (list []bgp.Route) {
	for _, r := range plan.Routes {
		if r.Peer != peer {
			continue
		}
		for _, text := range r.Prefixes {
			if p, err := netip.ParsePrefix(text); err == nil { // the controller writes no others
				list = append(list, bgp.Route{Prefix: p, LocalPref: r.LocalPref, Communities: r.Communities, Large: r.Large})
			}
		}
	}
	return list
}

// sessions are as the Lease is to have them.
func (s *speaking) sessions() map[string]wellknown.BGPSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.states, func(name string, _ bgp.State) bool { return !s.names[name] })
	out := map[string]wellknown.BGPSession{}
	for name := range s.names {
		st := s.states[name]
		out[name] = wellknown.BGPSession{Established: st.Established, Trouble: cmp.Or(s.lost[name], st.Trouble), Routes: st.Routes}
	}
	return out
}

// report writes into the Lease how the sessions are, if it says something else.
func (s *speaking) report(ctx context.Context, now map[string]wellknown.BGPSession) error {
	if s.lease == nil {
		return nil
	}
	var said map[string]wellknown.BGPSession
	if json.Unmarshal([]byte(s.lease.Annotations[wellknown.BGPSessions]), &said) == nil && maps.Equal(said, now) {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	next := resource.Clone(s.lease)
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[wellknown.BGPSessions] = string(text)
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	obj, err := s.cfg.Client.Update(ctx, kinds.Leases, next, "")
	if err != nil {
		s.cfg.Log.Debug("say how the BGP sessions are", "object", "lease/"+next.Name, "again", apiPause, "err", err)
		return err
	}
	s.lease = resource.As[*coordinationv1.Lease](obj)
	return nil
}

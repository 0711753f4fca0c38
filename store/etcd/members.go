package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"

	contract "github.com/kloop-dev/kloop/store/member"
)

// The errors of calls about members that callers tell apart.
var (
	ErrAlone    = contract.ErrAlone
	ErrNoMember = contract.ErrNoMember
	ErrTaken    = contract.ErrTaken
)

// Members lists who keeps the store, of a server that takes no others itself alone, without a URL, as of a moment after the call began.
func (s *Store) Members(ctx context.Context) ([]Peer, error) {
	if s.member == nil {
		return nil, ErrAlone
	}
	if _, err := s.Revision(ctx); err != nil { // so that what follows is not old
		return nil, err
	}
	var list []Peer
	for _, m := range s.member.server.Cluster().Members() {
		p := toPeer(m)
		if s.Sole() {
			p.URL = "" // etcd has one that nobody listens at
		}
		list = append(list, p)
	}
	return list, nil
}

func toPeer(m *membership.Member) Peer {
	p := Peer{ID: uint64(m.ID), Name: m.Name, Learner: m.IsLearner}
	if len(m.PeerURLs) > 0 {
		p.URL = m.PeerURLs[0]
	}
	return p
}

// Admit makes a member known that is about to start at the URL, and returns all members, that one included. It gets
// all writes then, and votes once it has caught up. One that was at the URL before is replaced: it lost its data. Admit
// fails with ErrTaken if one is alive there or another has the name, and with other errors while the cluster is too
// unwell for a change.
func (s *Store) Admit(ctx context.Context, name, url string) ([]Peer, error) {
	if s.Sole() {
		return nil, ErrAlone
	}
	list, err := s.Members(ctx)
	if err != nil {
		return nil, err
	}
	urls, err := types.NewURLs([]string{url})
	if err != nil {
		return nil, fmt.Errorf("admit %s: %w", name, err)
	}
	if s.member.lives(ctx, url) {
		return nil, fmt.Errorf("admit %s: %w: a member of this cluster answers at %s; give the new one another address", name, ErrTaken, url)
	}
	for _, p := range list {
		switch {
		case p.URL == url:
			if err := s.member.remove(ctx, p); err != nil {
				return nil, fmt.Errorf("admit %s: replace the member that was at %s: %w", name, url, err)
			}
		case p.Name == name:
			return nil, fmt.Errorf(
				"admit %s: %w: a member of that name is at %s; choose another name, or remove that one first (kloop member remove %s)", name,
				ErrTaken, p.URL, name)
		}
	}
	now := time.Now()
	if _, err := s.member.server.AddMember(ctx, *membership.NewMemberAsLearner("", urls, name, &now)); err != nil {
		return nil, fmt.Errorf("admit %s: %w", name, err)
	}
	return s.Members(ctx)
}

// Remove takes the member with that name, or id in hexadecimal, out of the cluster. It stops when it hears of it.
func (s *Store) Remove(ctx context.Context, who string) (Peer, error) {
	if s.Sole() {
		return Peer{}, ErrAlone
	}
	list, err := s.Members(ctx)
	if err != nil {
		return Peer{}, err
	}
	for _, p := range list {
		if p.Name == who || strconv.FormatUint(p.ID, 16) == who {
			return p, s.member.removeSettled(ctx, p)
		}
	}
	return Peer{}, fmt.Errorf("%w: %s", ErrNoMember, who)
}

// How long a removal waits for members to settle, and how often it tries: etcd counts one as well when it has been connected for five
// seconds, and tells nobody when that is.
const (
	settling    = 15 * time.Second
	settlesLook = 250 * time.Millisecond
)

// removeSettled removes a member, if need be when those that joined or came back a moment ago have settled.
func (m *member) removeSettled(ctx context.Context, p Peer) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		err := m.remove(ctx, p)
		if !errors.Is(err, etcderrors.ErrUnhealthy) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: without it too few of the others would be left that answer; start those that are down, or remove them "+
				"first (kloop member list shows all)", err)
		case <-time.After(settlesLook):
		}
	}
}

func (m *member) remove(ctx context.Context, p Peer) error {
	if _, err := m.server.RemoveMember(ctx, p.ID); err != nil {
		return fmt.Errorf("remove the member %s: %w", p.Name, err)
	}
	return nil
}

// lives says that a member of this cluster answers at the URL.
func (m *member) lives(ctx context.Context, url string) bool {
	const patience = 5 * time.Second // a loaded member is slow to answer, and one that lives must not be displaced
	trip, err := rafthttp.NewRoundTripper(m.server.Cfg.PeerTLSInfo, patience)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/members", nil)
	if err != nil {
		return false
	}
	res, err := trip.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.Header.Get("X-Etcd-Cluster-ID") == m.server.Cluster().ID().String()
}

// Gone is closed when the member in this process has stopped by itself: it was removed from the cluster, or its disk
// failed. Without a member it never is.
func (s *Store) Gone() <-chan struct{} {
	if s.member == nil {
		return nil
	}
	return s.member.server.StopNotify()
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap"
)

// Peers says how the members of a cluster reach each other: over TLS in both directions. The files are read anew
// for every connection, so that they can be rotated.
type Peers struct {
	Name     string       // of this member, unlike any other's
	Listener net.Listener // where it answers the others; the store closes it
	URL      string       // by which the others reach it: https://host:port

	CAFile, CertFile, KeyFile string
	User                      string // common name that the certificates of all members have, and nobody else's

	// Join is called when the directory holds no data. It makes this member known to a running cluster and returns all
	// who belong to it then, this one too. nil: this is the first member.
	Join func(ctx context.Context) ([]Peer, error)
}

// A Peer is one member of the cluster.
type Peer struct {
	ID      uint64
	Name    string // "": it has not started yet
	URL     string
	Learner bool // gets all writes, does not vote yet
}

func (p *Peers) urls() types.URLs {
	u, err := types.NewURLs([]string{p.URL})
	if err != nil {
		return nil // checked by Open
	}
	return u
}

// check refuses what etcd would stumble over.
func (p *Peers) check() error {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil || u.Scheme != "https" || u.Port() == "" || p.urls() == nil:
		return fmt.Errorf("address of this member for others: %q is not like https://host:port", p.URL)
	case p.Name == "":
		return errors.New("this member of the store needs a name")
	case p.Listener == nil:
		return errors.New("this member of the store has no listener for the others")
	}
	return nil
}

// tls says how members trust each other.
func (p *Peers) tls() transport.TLSInfo {
	return transport.TLSInfo{TrustedCAFile: p.CAFile, CertFile: p.CertFile, KeyFile: p.KeyFile, ClientCertAuth: true, AllowedCNs: []string{p.User}}
}

// configure makes the settings of a lone member those of a member of a cluster.
func (p *Peers) configure(s *config.ServerConfig, first []Peer) {
	s.Name, s.PeerURLs, s.PeerTLSInfo = p.Name, p.urls(), p.tls()
	s.TickMs, s.ElectionTicks, s.InitialElectionTickAdvance = uint(peerTick.Milliseconds()), peerElectionTicks, true
	s.PreVote, s.StrictReconfigCheck, s.MaxLearners = true, true, 1
	s.SnapshotCatchUpEntries = max(s.SnapshotCatchUpEntries, keptForPeers)
	if len(first) == 0 {
		return
	}
	s.InitialPeerURLsMap = types.URLsMap{}
	for _, m := range first {
		switch {
		case m.URL == p.URL:
			m.Name = p.Name
		case m.Name == "":
			m.Name = fmt.Sprintf("%x", m.ID)
		}
		if u, err := types.NewURLs([]string{m.URL}); err == nil {
			s.InitialPeerURLsMap[m.Name] = u
		}
	}
}

// join makes this member known to a cluster. What is left of a try that failed is put aside.
func (p *Peers) join(ctx context.Context, dir string) ([]Peer, error) {
	old := datadir.ToMemberDir(dir)
	if err := os.RemoveAll(old + ".aside"); err != nil {
		return nil, fmt.Errorf("make place for the data: %w", err)
	}
	if err := os.Rename(old, old+".aside"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("make place for the data: %w", err)
	}
	first, err := p.Join(ctx)
	if err != nil {
		return nil, fmt.Errorf("join the cluster: %w", err)
	}
	if len(first) < 2 {
		return nil, fmt.Errorf("join the cluster: it has %d members, this one included", len(first))
	}
	return first, nil
}

// listen answers peers and clients.
func (m *member) listen(c Config, lg *zap.Logger) error {
	if p := c.Peers; p != nil {
		info := p.tls()
		cfg, err := info.ServerConfig()
		if err != nil {
			return fmt.Errorf("set up the connections of members: %w", err)
		}
		srv := &http.Server{Handler: etcdhttp.NewPeerHandler(lg, m.server), TLSConfig: cfg, ReadHeaderTimeout: time.Minute,
			ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), Protocols: new(http.Protocols)}
		srv.Protocols.SetHTTP1(true)
		m.answer(srv, func() error { return srv.ServeTLS(p.Listener, "", "") }, c.Log)
	}
	if c.Clients != nil {
		srv := clientServer(m.server, lg)
		m.answer(srv, func() error { return srv.Serve(c.Clients) }, c.Log)
	}
	return nil
}

// answer serves until the member stops.
func (m *member) answer(srv io.Closer, serve func() error, log *slog.Logger) {
	m.ports = append(m.ports, srv)
	go func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			log.Error("answer other members or clients of the store", "err", err)
		}
	}()
}

// settle makes a member that runs what it should be: reachable at its address, and voting.
func (m *member) settle(ctx context.Context, c Config) error {
	self := m.server.MemberID()
	for {
		me := m.self()
		var err error
		switch {
		case me == nil:
			return errors.New("this member was removed from the cluster: to join it anew, move its data directory away")
		case len(me.PeerURLs) != 1 || me.PeerURLs[0] != c.Peers.URL:
			next := *me
			next.PeerURLs = []string{c.Peers.URL}
			_, err = m.server.UpdateMember(ctx, next)
		case me.IsLearner:
			_, err = m.server.PromoteMember(ctx, uint64(self))
		default:
			return nil
		}
		if err != nil {
			c.Log.Debug("the member is not part of the cluster yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-m.server.StopNotify():
			return errors.New("it stopped")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// self is this member as the cluster knows it; nil when it doesn't.
func (m *member) self() *membership.Member {
	return m.server.Cluster().Member(m.server.MemberID())
}

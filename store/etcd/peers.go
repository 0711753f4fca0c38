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
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap"

	contract "github.com/kloop-dev/kloop/store/member"
)

// Peers says how the members of a cluster reach each other.
type Peers contract.Peers

// A Peer is one member of the cluster.
type Peer = contract.Peer

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
	return transport.TLSInfo{TrustedCAFile: p.CAFile, CertFile: p.CertFile, KeyFile: p.KeyFile, ClientCertAuth: true,
		AllowedCNs: []string{p.User}}
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
		m.answer(srv, func() error { return srv.ServeTLS(impatient{p.Listener}, "", "") }, c.Log)
	}
	if c.Clients != nil {
		srv, ended := clientServer(m.server, lg)
		m.answer(srv, func() error { defer ended(); return srv.Serve(c.Clients) }, c.Log)
	}
	return nil
}

// impatient ends connections on which nothing moves for five seconds, as etcd's own listener for peers does: they beat
// more often. Else one whose packets got lost while the network was cut would be waited for long after it is mended.
type impatient struct{ net.Listener }

func (l impatient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return deadlined{c}, nil
}

type deadlined struct{ net.Conn }

func (c deadlined) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(rafthttp.ConnReadTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c deadlined) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(rafthttp.ConnWriteTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
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

// settle waits until the member is as it should be: known at its address, voting, and one that reads what others
// wrote. (Etcd calls a member ready when it has told the others its name, which may take seven seconds more.)
func (m *member) settle(ctx context.Context, c Config) error {
	const patience = time.Second // for one step: what it asks for gets lost when there is no leader
	tell, again := time.NewTicker(10*time.Second), time.NewTicker(50*time.Millisecond)
	defer tell.Stop()
	defer again.Stop()
	for {
		step, cancel := context.WithTimeout(ctx, patience)
		done, err := m.approach(step, c.Peers.URL)
		cancel()
		if done {
			return err
		}
		c.Log.Debug("this member of the store is not ready", "err", err)
		select {
		case <-tell.C:
			c.Log.Info("the store waits for its members: more than half of them must run", "members", len(m.server.Cluster().Members()), "err", err)
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("more than half of the members of the store must run: %w", errors.Join(ctx.Err(), err))
		case <-m.server.StopNotify():
			return errRemoved
		}
	}
}

// undecided says that the members of the cluster to join have not agreed on its version yet, as they do soon after their
// start. Etcd has no error of its own for it.
func undecided(err error) bool {
	return strings.Contains(err.Error(), "incompatible with current running cluster")
}

// pause waits a moment before another try.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(100 * time.Millisecond):
		return true
	}
}

var errRemoved = errors.New("this member was removed from the cluster: to join it anew, move its data directory away")

// approach takes the next step, or says that there is none.
func (m *member) approach(ctx context.Context, url string) (done bool, err error) {
	if err := m.readable(ctx); err != nil {
		return false, err
	}
	me := m.server.Cluster().Member(m.server.MemberID())
	switch {
	case me == nil:
		return true, errRemoved
	case len(me.PeerURLs) != 1 || me.PeerURLs[0] != url:
		next := *me
		next.PeerURLs = []string{url}
		_, err = m.server.UpdateMember(ctx, next)
	case me.IsLearner:
		_, err = m.server.PromoteMember(ctx, uint64(me.ID))
	default:
		return true, nil
	}
	return false, err
}

// readable makes sure that all that was acknowledged is here.
func (m *member) readable(ctx context.Context) error {
	_, err := m.server.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte("/"), CountOnly: true})
	return err
}

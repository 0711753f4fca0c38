package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// Config says where and how a member in this process keeps its data.
type Config struct {
	Dir   string        // data directory, in etcd's own layout; made when missing
	Quota int64         // bytes that the database may take; 0: 8 GiB
	Keep  time.Duration // history that compaction leaves, up to twice that; 0: 5 minutes
	Log   *slog.Logger  // nil: the default logger. Etcd's own warnings and errors go there too

	Peers   *Peers       // how other members reach this one; nil: they don't, it is the only member
	Clients net.Listener // where etcd's own clients are answered, in the clear; nil: nowhere. The store closes it
	NoSync  bool         // don't wait for the disk: a crash loses data. For tests
}

// shared says that others than this process can write to the store.
func (c Config) shared() bool { return c.Peers != nil || c.Clients != nil }

// The member's clock. A member without peers elects itself as soon as campaign asks it to, and sends
// no heartbeats: all that the ticks do afterwards is cost processor time. Members of a cluster send a heartbeat
// every tick and elect another leader after a second without.
const (
	tick          = 500 * time.Millisecond
	electionTicks = 2 // a lease can't be shorter than 3/2 of these ticks, in whole seconds

	peerTick          = 100 * time.Millisecond
	peerElectionTicks = 10
)

// keptEntries is the number of entries that etcd keeps in memory besides those of the replay. It would be for followers.
const keptEntries = 100

// keptForPeers is the number of entries that a member of a cluster keeps for those that were away. One that
// was away for longer gets the whole database.
const keptForPeers = 5000

const (
	defaultQuota = 8 << 30
	defaultKeep  = 5 * time.Minute

	// startPatience bounds the start of a member. It takes tens of milliseconds, and longer only when there
	// is a large database to defragment on the way.
	startPatience = 5 * time.Minute

	// maxRequest is the size in bytes of the largest write, key and value together; etcd's default.
	maxRequest = 3 << 19
)

// A member is an etcd server in this process.
type member struct {
	server *etcdserver.EtcdServer
	kv     etcdserverpb.KVServer // its front door, which minds the quota
	dir    string
	quota  int64
	shared bool        // others than this process write to the store
	peers  bool        // there may be other members
	noSync bool        // a crash may lose data
	ports  []io.Closer // what answers peers and clients
}

// stop ends the member. One that leads hands over first.
func (m *member) stop() {
	m.server.Stop()
	for _, p := range m.ports {
		_ = p.Close() // nothing that could be lost
	}
}

// HandOver has another member lead, if this one does and there is another: within a second or so, or it says why not.
func (s *Store) HandOver() error {
	if s.Sole() || s.member == nil {
		return nil
	}
	return s.member.server.TryTransferLeadershipOnShutdown()
}

// Open starts an etcd member in this process on its own data directory, and returns when it takes writes.
// Without Peers and Clients it listens nowhere. A directory that can't be trusted is refused with a
// *CorruptError and left as it is; one that another process uses with ErrInUse. The context bounds the start only.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Dir == "" {
		return nil, errors.New("open etcd: no data directory given")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Peers != nil {
		if err := c.Peers.check(); err != nil {
			return nil, fmt.Errorf("open etcd: %w", err)
		}
	}
	c.Quota = cmp.Or(c.Quota, defaultQuota)
	c.Keep = cmp.Or(c.Keep, defaultKeep)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	if err := os.Chmod(c.Dir, 0o700); err != nil { // it holds secrets
		return nil, fmt.Errorf("protect the data directory: %w", err)
	}
	shortLogs()
	lg := zapLogger(c.Log)
	first, err := begin(ctx, c, lg)
	if err != nil {
		return nil, err
	}
	var seen examined
	if len(first) == 0 {
		lighten(c.Dir, c.Log)
		if seen, err = examine(c.Dir); err != nil {
			return nil, err
		}
		if err := mend(datadir.ToWALDir(c.Dir)); err != nil {
			return nil, fmt.Errorf("open %s: %w", c.Dir, err)
		}
		if seen.members > 1 && c.Peers == nil {
			return nil, fmt.Errorf(
				"data directory %s belongs to a member of a cluster of %d: start it with the address at which the others reach it, "+
					"or make a cluster of one of its data with kloop restore", c.Dir, seen.members)
		}
		if err := seen.cut(c.Dir); err != nil {
			return nil, fmt.Errorf("open %s: %w", c.Dir, err)
		}
	}
	m, err := start(ctx, c, seen, first, lg)
	if err != nil {
		return nil, err
	}
	s := newStore(v3client.New(m.server), m, c.Log)
	s.head.raise(m.server.KV().Rev())
	s.compacted.Store(m.server.KV().FirstRev())
	s.upkeep.Go(func() { s.keepUp(c.Keep) })
	s.upkeep.Go(s.hearOthers)
	return s, nil
}

// begin makes a data directory where there is none. For a member that joins a cluster it only returns the members
// of that cluster: the data comes from them.
func begin(ctx context.Context, c Config, lg *zap.Logger) ([]Peer, error) {
	switch _, err := os.Stat(datadir.ToMemberDir(c.Dir)); {
	case c.Peers != nil && c.Peers.Join != nil && !wal.Exist(datadir.ToWALDir(c.Dir)):
		return c.Peers.join(ctx, c.Dir)
	case err == nil:
		return nil, nil
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("look at the data directory: %w", err)
	case c.Peers != nil:
		return nil, found(c.Dir, c.Peers.Name, c.Peers.urls(), lg, func(string) error { return nil })
	}
	return nil, found(c.Dir, name, peerURLs(), lg, func(string) error { return nil })
}

// start brings the server up. Etcd panics on much that can be wrong with its files.
func start(ctx context.Context, c Config, seen examined, first []Peer, lg *zap.Logger) (m *member, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, &CorruptError{Dir: c.Dir, Part: "the data", Err: fmt.Errorf("%v", p)}
			if strings.Contains(fmt.Sprint(p), syscall.ENOSPC.Error()) {
				err = fmt.Errorf("start etcd on %s: make room on its disk: %v", c.Dir, p)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	server, err := etcdserver.NewServer(serverConfig(c, seen, first, lg))
	for err != nil && len(first) > 0 && undecided(err) && pause(ctx) {
		server, err = etcdserver.NewServer(serverConfig(c, seen, first, lg))
	}
	if err != nil {
		return nil, fmt.Errorf("start etcd on %s: %w", c.Dir, err)
	}
	m = &member{server: server, kv: v3rpc.NewQuotaKVServer(server), dir: c.Dir, quota: c.Quota, shared: c.shared(),
		peers: c.Peers != nil, noSync: c.NoSync}
	server.Start()
	if err := m.listen(c, lg); err != nil {
		m.stop()
		return nil, err
	}
	if seen.snapshot > 0 && seen.members <= 1 {
		campaign(ctx, server)
	}
	if err := m.await(ctx, c); err != nil {
		server.HardStop()
		m.stop()
		return nil, fmt.Errorf("start etcd on %s: %w", c.Dir, err)
	}
	return m, nil
}

// await waits until the member takes writes.
func (m *member) await(ctx context.Context, c Config) error {
	if c.Peers != nil {
		return m.settle(ctx, c)
	}
	select {
	case <-m.server.ReadyNotify():
		return nil
	case <-m.server.StopNotify():
		return errors.New("it stopped")
	case <-ctx.Done():
		return fmt.Errorf("not ready: %w", ctx.Err())
	}
}

// campaign makes the member elect itself as soon as it can, which is at once, or when it has applied changes
// of membership that it replays. It would do so by itself after a random time of up to two election timeouts.
// The message is the one by which a leader hands over to another member.
//
// Raft looks through the entries that are being replayed when it gets the message, and panics when etcd has
// applied and dropped one of them. So etcd is configured to keep that many (see serverConfig). Without a snapshot it
// drops the very first nevertheless: such a log, which is not of our making, is left to elect in its own time.
func campaign(ctx context.Context, server *etcdserver.EtcdServer) {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	self := uint64(server.MemberID())
	for server.Lead() == 0 {
		server.Process(ctx, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), To: &self, From: &self})
		select {
		case <-again.C:
		case <-server.StopNotify():
			return
		case <-ctx.Done():
			return
		}
	}
}

func serverConfig(c Config, seen examined, first []Peer, lg *zap.Logger) config.ServerConfig {
	s := config.ServerConfig{
		Name:              name,
		DataDir:           c.Dir,
		Logger:            lg,
		ClientURLs:        clientURLs(),
		PeerURLs:          peerURLs(),
		ServerFeatureGate: features.NewDefaultServerFeatureGate(name, lg),

		TickMs:        uint(tick.Milliseconds()),
		ElectionTicks: electionTicks,

		QuotaBackendBytes: c.Quota,
		MaxRequestBytes:   maxRequest,
		MaxTxnOps:         128,
		BcryptCost:        10, // etcd warns without; no passwords are used

		SnapshotCount:          5000,
		SnapshotCatchUpEntries: keptEntries + uint64(seen.entries),
		MaxSnapFiles:           2,
		MaxWALFiles:            2,

		BootstrapDefragThresholdMegabytes: seen.defragAbove(),

		WarningApplyDuration:        time.Second,
		WarningUnaryRequestDuration: 5 * time.Second,
		WatchProgressNotifyInterval: time.Hour, // watches ask

		MaxConcurrentStreams: math.MaxUint32,
		UnsafeNoFsync:        c.NoSync,
	}
	if c.Peers != nil {
		c.Peers.configure(&s, first)
	}
	return s
}

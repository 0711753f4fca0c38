package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// Config says where and how a member in this process keeps its data.
type Config struct {
	Dir   string        // data directory, in etcd's own layout; made when missing
	Quota int64         // bytes that the database may take; 0: 8 GiB
	Keep  time.Duration // history that compaction leaves, up to twice that; 0: 5 minutes
	Log   *slog.Logger  // nil: the default logger. Etcd's own warnings and errors go there too
}

// The member's clock. A member without peers elects itself as soon as it is told to (see campaign), and sends
// no heartbeats: all that the ticks do afterwards is cost processor time.
const (
	tick          = 500 * time.Millisecond
	electionTicks = 2 // a lease can't be shorter than 3/2 of these ticks, in whole seconds
)

// keptEntries is how many entries etcd keeps in memory besides those of the replay. It would be for followers.
const keptEntries = 100

const (
	defaultQuota = 8 << 30
	defaultKeep  = 5 * time.Minute

	// startPatience bounds the start of a member. It takes tens of milliseconds, and longer only when there
	// is a large database to defragment on the way.
	startPatience = 5 * time.Minute

	// maxRequest is the size in bytes of the largest write, key and value together; etcd's default.
	maxRequest = 3 << 19
)

// A member is an etcd server in this process that nobody can reach from outside.
type member struct {
	server *etcdserver.EtcdServer
	dir    string
	quota  int64
}

// Open starts an etcd member in this process on its own data directory, and returns when it takes writes.
// It listens nowhere. A directory that can't be trusted is refused with a *CorruptError and left as it is;
// one that another process uses with ErrInUse. The context bounds the start only.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Dir == "" {
		return nil, errors.New("open etcd: no data directory given")
	}
	if c.Log == nil {
		c.Log = slog.Default()
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
	if _, err := os.Stat(datadir.ToMemberDir(c.Dir)); errors.Is(err, os.ErrNotExist) {
		if err := found(c.Dir, lg, func(string) error { return nil }); err != nil {
			return nil, err
		}
	}
	seen, err := examine(c.Dir)
	if err != nil {
		return nil, err
	}
	server, err := start(ctx, c, seen, lg)
	if err != nil {
		return nil, err
	}
	s := newStore(v3client.New(server), &member{server: server, dir: c.Dir, quota: c.Quota}, c.Log)
	s.head.raise(server.KV().Rev())
	s.compacted.Store(server.KV().FirstRev())
	s.upkeep.Go(func() { s.keepUp(c.Keep) })
	s.upkeep.Go(s.hearExpiry)
	return s, nil
}

// start brings the server up. Etcd panics on much that can be wrong with its files.
func start(ctx context.Context, c Config, seen examined, lg *zap.Logger) (server *etcdserver.EtcdServer, err error) {
	defer func() {
		if p := recover(); p != nil {
			server, err = nil, &CorruptError{Dir: c.Dir, Part: "the data", Err: fmt.Errorf("%v", p)}
		}
	}()
	server, err = etcdserver.NewServer(serverConfig(c, seen, lg))
	if err != nil {
		return nil, fmt.Errorf("start etcd on %s: %w", c.Dir, err)
	}
	server.Start()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if seen.snapshot > 0 {
		campaign(ctx, server)
	}
	select {
	case <-server.ReadyNotify():
		return server, nil
	case <-server.StopNotify():
		return nil, fmt.Errorf("start etcd on %s: it stopped", c.Dir)
	case <-ctx.Done():
		server.HardStop()
		return nil, fmt.Errorf("start etcd on %s: not ready: %w", c.Dir, ctx.Err())
	}
}

// campaign makes the member elect itself as soon as it can, which is at once, or when it has applied changes
// of membership that it replays. It would do so by itself after a random time of up to two election timeouts.
// The message is the one by which a leader hands over to another member.
//
// Raft looks through the entries that are being replayed when it gets the message, and panics when etcd has
// applied and dropped one of them. So etcd is told to keep that many (see serverConfig). Without a snapshot it
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

func serverConfig(c Config, seen examined, lg *zap.Logger) config.ServerConfig {
	return config.ServerConfig{
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
	}
}

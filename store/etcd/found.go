package etcd

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

const name = "kloop" // of a member that has no peers, and of its cluster

// The addresses are part of a member's identity, but nothing listens there unless it has peers.
func peerURLs() types.URLs   { return types.URLs{url.URL{Scheme: "http", Host: "127.0.0.1:2380"}} }
func clientURLs() types.URLs { return types.URLs{url.URL{Scheme: "http", Host: "127.0.0.1:2379"}} }

// found lays down the data of a cluster of one member in dir, around the database that prepare may put there.
// All is made aside and gets its name when it is complete and on disk: there are no directories half made.
//
// Etcd's own way is to start a server that then writes and applies its membership as its first entry. A log
// that begins with that entry behind it, as those of restored clusters do, can elect its leader at once.
func found(dir, name string, urls types.URLs, lg *zap.Logger, prepare func(db string) error) error {
	const aside = "member.new-"
	if left, err := filepath.Glob(filepath.Join(dir, aside+"*")); err == nil {
		for _, l := range left {
			os.RemoveAll(l)
		}
	}
	base, err := os.MkdirTemp(dir, aside)
	if err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	defer os.RemoveAll(base)
	if err := layDown(base, name, urls, lg, prepare); err != nil {
		return fmt.Errorf("fill the data directory: %w", err)
	}
	if err := os.Rename(datadir.ToMemberDir(base), datadir.ToMemberDir(dir)); err != nil {
		return fmt.Errorf("finish the data directory: %w", err)
	}
	return atomicfile.SyncDir(dir)
}

func layDown(base, name string, urls types.URLs, lg *zap.Logger, prepare func(db string) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if err := os.MkdirAll(datadir.ToSnapDir(base), 0o700); err != nil {
		return err
	}
	if err := prepare(datadir.ToBackendFileName(base)); err != nil {
		return err
	}
	cluster, err := membership.NewClusterFromURLsMap(lg, name, types.URLsMap{name: urls})
	if err != nil {
		return err
	}
	member := cluster.MemberByName(name)
	if err := enrol(datadir.ToBackendFileName(base), member, lg); err != nil {
		return err
	}
	if err := beginLog(base, cluster, member, lg); err != nil {
		return err
	}
	return atomicfile.SyncDir(datadir.ToMemberDir(base))
}

// segment is the size in bytes of the files that make up the log. There are two or three of them, made at
// full size; all are read at the start. Etcd makes them four times as large.
const segment = 16 << 20

// shortLogs sets it, before any log is opened: etcd has one for all members of a process.
var shortLogs = sync.OnceFunc(func() { wal.SegmentSizeBytes = segment })

// The log begins in the first term, with the entry that made the member one.
const firstTerm, firstEntry = 1, 1

// enrol writes the member into the database, as the first entry does.
func enrol(db string, m *membership.Member, lg *zap.Logger) error {
	be := backend.NewDefaultBackend(lg, db)
	members := schema.NewMembershipBackend(lg, be)
	members.MustCreateBackendBuckets()
	members.MustSaveMemberToBackend(m)
	tx := be.BatchTx()
	tx.LockOutsideApply()
	schema.UnsafeCreateMetaBucket(tx)
	schema.UnsafeUpdateConsistentIndexForce(tx, firstEntry, firstTerm)
	schema.MustUnsafeSaveConfStateToBackend(lg, tx, voters(m))
	tx.Unlock()
	return be.Close()
}

// beginLog writes the first entry and a snapshot of what it did.
func beginLog(base string, cluster *membership.RaftCluster, m *membership.Member, lg *zap.Logger) error {
	id := uint64(m.ID)
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: &id, ClusterID: new(uint64(cluster.ID()))})
	if err != nil {
		return err
	}
	described, err := json.Marshal(m)
	if err != nil {
		return err
	}
	change, err := proto.Marshal(&raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: &id, Context: described})
	if err != nil {
		return err
	}
	shortLogs()
	w, err := wal.Create(lg, datadir.ToWALDir(base), metadata)
	if err != nil {
		return err
	}
	defer w.Close()
	term, index := new(uint64(firstTerm)), new(uint64(firstEntry))
	entry := &raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Term: term, Index: index, Data: change}
	if err := w.Save(&raftpb.HardState{Term: term, Vote: &id, Commit: index}, []*raftpb.Entry{entry}); err != nil {
		return err
	}
	// Etcd before 3.7 looks for the snapshot in a file too.
	err = snap.New(lg, datadir.ToSnapDir(base)).SaveSnap(&raftpb.Snapshot{
		Data:     etcdserver.GetMembershipInfoInV2Format(lg, cluster),
		Metadata: &raftpb.SnapshotMetadata{Index: index, Term: term, ConfState: voters(m)},
	})
	if err != nil {
		return err
	}
	return w.SaveSnapshot(&walpb.Snapshot{Index: index, Term: term, ConfState: voters(m)})
}

func voters(m *membership.Member) *raftpb.ConfState {
	return &raftpb.ConfState{Voters: []uint64{uint64(m.ID)}}
}

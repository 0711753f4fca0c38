package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"google.golang.org/protobuf/proto"
)

// Snapshot writes the whole store to w, as it is at one revision, in the format of `etcdctl snapshot save`:
// the database followed by its checksum. Reads and writes go on meanwhile.
func (s *Store) Snapshot(ctx context.Context, w io.Writer) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.inflight.Done()
	ctx, cancel := context.WithCancel(ctx) // ends the server's part when w fails
	defer cancel()
	r, err := s.client.Snapshot(ctx)
	if err != nil {
		return s.explain(ctx, "take a snapshot", err)
	}
	defer r.Close()
	if _, err := io.Copy(w, r); err != nil {
		return s.explain(ctx, "take a snapshot", err)
	}
	return nil
}

// restoredRevisions is the distance by which a restored store's revision is ahead of the snapshot's: further than the lost
// store can have come. So no revision is used twice, and clients that hold a lost one have to read anew.
const restoredRevisions = 1_000_000_000

// restoredKey tells when a store was restored.
const restoredKey = "kloop_restored"

// Restore makes a data directory for Open out of a snapshot. The directory must not hold data. A bare database
// file, as it lies in the data directory of a member that is broken otherwise, will do as well.
func Restore(snapshot, dir string) error {
	if _, err := os.Stat(datadir.ToMemberDir(dir)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore to %s: it holds data already", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("restore: make the data directory: %w", err)
	}
	err := found(dir, name, peerURLs(), zapLogger(slog.Default()), func(db string) error {
		if err := unpack(snapshot, db); err != nil {
			return err
		}
		return rebase(db, time.Now())
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", snapshot, err)
	}
	return nil
}

// CheckSnapshot says what is wrong with a snapshot: that it is cut off, or that its checksum does not match.
func CheckSnapshot(path string) error {
	if err := copySnapshot(path, io.Discard); err != nil {
		return fmt.Errorf("check the snapshot %s: %w", path, err)
	}
	return nil
}

// unpack copies the database out of a snapshot.
func unpack(snapshot, to string) error {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := copySnapshot(snapshot, out); err != nil {
		return err
	}
	return out.Sync()
}

// copySnapshot copies the database out of a snapshot and compares the checksum. Databases are whole blocks long, so
// the length tells whether there is one.
func copySnapshot(snapshot string, out io.Writer) error {
	in, err := os.Open(snapshot)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	const block = 512
	size := info.Size() - info.Size()%block
	if rest := info.Size() - size; size == 0 || rest != 0 && rest != sha256.Size {
		return fmt.Errorf("%d bytes are no snapshot, or a part of one", info.Size())
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(out, sum), in, size); err != nil {
		return err
	}
	want, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if len(want) > 0 && !bytes.Equal(want, sum.Sum(nil)) {
		return errors.New("the checksum is wrong")
	}
	return nil
}

// rebase takes out of a database what binds it to the cluster it comes from, and moves the revision ahead.
func rebase(path string, now time.Time) error {
	if err := readDatabase(path, walk); err != nil {
		return fmt.Errorf("the database is broken: %w", err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bolt.Tx) error {
		meta, keys := tx.Bucket([]byte("meta")), tx.Bucket([]byte("key"))
		if meta == nil || keys == nil {
			return errors.New("the database is not of an etcd member")
		}
		for _, name := range []string{"consistent_index", "term", "confState"} {
			if err := meta.Delete([]byte(name)); err != nil {
				return err
			}
		}
		for _, name := range []string{"members", "members_removed", "alarm"} {
			if err := tx.DeleteBucket([]byte(name)); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
				return err
			}
		}
		return moveAhead(meta, keys, now)
	})
}

// moveAhead writes one key at a much later revision, and has all before it compacted.
func moveAhead(meta, keys *bolt.Bucket, now time.Time) error {
	newest, _ := keys.Cursor().Last()
	rev := int64(restoredRevisions)
	if len(newest) >= 8 {
		rev += int64(binary.BigEndian.Uint64(newest))
	}
	kv, err := proto.Marshal(&mvccpb.KeyValue{
		Key: []byte(restoredKey), Value: now.UTC().AppendFormat(nil, time.RFC3339),
		CreateRevision: rev, ModRevision: rev, Version: 1,
	})
	if err != nil {
		return err
	}
	at := binary.BigEndian.AppendUint64(nil, uint64(rev))
	at = append(at, "_\x00\x00\x00\x00\x00\x00\x00\x00"...) // the first write of the revision
	if err := keys.Put(at, kv); err != nil {
		return err
	}
	return meta.Put([]byte("scheduledCompactRev"), at)
}

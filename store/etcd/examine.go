package etcd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"

	contract "github.com/kloop-dev/kloop/store/member"
)

// ErrInUse is returned by Open for a data directory that another process has open.
var ErrInUse = errors.New("data directory is in use by another process")

// A CorruptError says which part of a data directory can't be trusted. Nothing in the directory was changed.
type CorruptError = contract.CorruptError

// examined is the result of a look at a data directory.
type examined struct {
	size    int64  // of the database file
	used    int64  // of that: what follows holds nothing yet
	applied uint64 // last log entry that is in the database; 0: none
	members int

	snapshot uint64 // entry of the log's last snapshot; 0: none
	entries  int    // in the log after that, to be replayed
}

// examine looks whether a directory can be trusted, before etcd does: that would wait for a lock forever, end
// the process, or start anew on half of the data.
func examine(dir string) (seen examined, err error) {
	corrupt := func(part string, err error) (examined, error) {
		return seen, &CorruptError{Dir: dir, Part: part, Err: err}
	}
	db, logDir := datadir.ToBackendFileName(dir), datadir.ToWALDir(dir)
	info, err := os.Stat(db)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return corrupt("the database", fmt.Errorf("%s is missing", db))
	case err != nil:
		return seen, fmt.Errorf("look at the database: %w", err)
	case !wal.Exist(logDir):
		return corrupt("the log", fmt.Errorf("there is none in %s", logDir))
	}
	seen.size = info.Size()
	switch err := seen.database(db); {
	case errors.Is(err, ErrInUse):
		return seen, fmt.Errorf("open %s: %w", dir, err)
	case err != nil:
		return corrupt("the database "+db, err)
	}
	if err := seen.log(logDir); err != nil {
		return corrupt("the log in "+logDir, err)
	}
	return seen, nil
}

// database reads what is needed from the database file, and every page of it.
func (x *examined) database(path string) error {
	return readDatabase(path, func(tx *bolt.Tx) error {
		if tx.Size() > x.size {
			return fmt.Errorf("it has %d bytes, %d are missing", x.size, tx.Size()-x.size)
		}
		x.used = tx.Size()
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			if v := meta.Get([]byte("consistent_index")); len(v) == 8 {
				x.applied = binary.BigEndian.Uint64(v)
			}
		}
		if members := tx.Bucket([]byte("members")); members != nil {
			x.members = members.Stats().KeyN
		}
		return walk(tx)
	})
}

// cut takes off the end of the database file that holds nothing: bbolt lets a file grow by 16 MiB, and etcd has all of it read and mapped
// when it opens it.
func (x *examined) cut(dir string) error {
	if x.used == x.size {
		return nil
	}
	x.size = x.used
	return os.Truncate(datadir.ToBackendFileName(dir), x.used)
}

// readDatabase opens a database that may be broken. That makes bolt panic, or touch memory that is not there.
// (Its own check does so on another goroutine, where nobody can catch it, and so does opening for writing.)
func readDatabase(path string, f func(*bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return ErrInUse
	}
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(f)
}

// walk visits every page that is in use, and every key: they must be in order.
func walk(tx *bolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		var last []byte
		return b.ForEach(func(key, _ []byte) error {
			if last != nil && bytes.Compare(last, key) >= 0 {
				return fmt.Errorf("keys in %s are out of order", name)
			}
			last = key
			return nil
		})
	})
}

// defragAbove is the number of megabytes of holes that make etcd rewrite the database at its start.
func (x examined) defragAbove() uint {
	return uint(max(minWaste, x.size/2) >> 20)
}

package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// ErrInUse is returned by Open for a data directory that another process has open.
var ErrInUse = errors.New("data directory is in use by another process")

// A CorruptError says which part of a data directory can't be trusted. Nothing in the directory was changed.
type CorruptError struct {
	Dir  string
	Part string // what is broken
	Err  error  // how
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("data directory %s is corrupt: %s: %v. It was left as it is. To go on, move it away and restore a snapshot "+
		"in its place (kloop restore); what was written after the snapshot is lost then", e.Dir, e.Part, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// fullCheck is the size in bytes up to which every page of a database is looked at.
const fullCheck = 64 << 20

// examined is what a look at a data directory shows.
type examined struct {
	size    int64  // of the database file
	applied uint64 // last log entry that is in the database; 0: none
	members int
	entries int // in the log, after its last snapshot
}

// examine looks whether a directory can be trusted, before etcd does: that would wait for a lock forever, end
// the process, or start anew on half of the data.
func examine(dir string) (found examined, err error) {
	corrupt := func(part string, err error) (examined, error) {
		return found, &CorruptError{Dir: dir, Part: part, Err: err}
	}
	db, logDir := datadir.ToBackendFileName(dir), datadir.ToWALDir(dir)
	hasLog := wal.Exist(logDir)
	info, err := os.Stat(db)
	switch {
	case errors.Is(err, os.ErrNotExist) && hasLog:
		return corrupt("the database", fmt.Errorf("%s is missing, though there is a log", db))
	case errors.Is(err, os.ErrNotExist):
		return found, nil
	case err != nil:
		return found, fmt.Errorf("look at the database: %w", err)
	}
	if found.size = info.Size(); found.size == 0 && !hasLog {
		return found, os.Remove(db) // ended while the file was made
	}
	switch err := found.database(db); {
	case errors.Is(err, ErrInUse):
		return found, fmt.Errorf("open %s: %w", dir, err)
	case err != nil:
		return corrupt("the database "+db, err)
	case found.members > 1:
		return found, fmt.Errorf("data directory %s belongs to a member of a cluster of %d: restore a snapshot of it instead", dir, found.members)
	case !hasLog && found.applied > 0:
		return corrupt("the log", fmt.Errorf("%s is missing, though the database has %d entries of it", logDir, found.applied))
	case !hasLog:
		return found, nil // restored from a snapshot
	}
	if err := found.log(logDir); err != nil {
		return corrupt("the log in "+logDir, err)
	}
	return found, nil
}

// database reads what is needed from the database file, and checks its structure.
func (x *examined) database(path string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second, PreLoadFreelist: x.size <= fullCheck})
	if err != nil {
		if errors.Is(err, bolt.ErrTimeout) {
			return ErrInUse
		}
		return err
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		if tx.Size() > x.size {
			return fmt.Errorf("it has %d bytes, %d are missing", x.size, tx.Size()-x.size)
		}
		if x.size <= fullCheck {
			for err := range tx.Check() {
				return err
			}
		}
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			if v := meta.Get([]byte("consistent_index")); len(v) == 8 {
				x.applied = binary.BigEndian.Uint64(v)
			}
		}
		if members := tx.Bucket([]byte("members")); members != nil {
			x.members = members.Stats().KeyN
		}
		return nil
	})
}

// defragAbove is how many megabytes of holes make etcd rewrite the database at its start.
func (x examined) defragAbove() uint {
	return uint(max(minWaste, x.size/2) >> 20)
}

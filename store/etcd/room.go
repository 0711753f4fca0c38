package etcd

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/storage/datadir"

	"github.com/kloop-dev/kloop/store"
)

// What bounds writes by the room on the disk. Etcd ends the process when it can't write, and reaches for room in large steps: a
// segment of its log is 64 MiB.
const (
	keptBack  = 96 << 20 // refuses writes
	roomAgain = 16 << 20 // so much more ends that
	roomEvery = 100 * time.Millisecond
	roomBytes = 4 << 20 // written: look again at once

	// reserved is the room that the database holds for what was accepted since the last look: others may take all that is left at any
	// moment, and etcd ends the process when it can't commit.
	reserved = 16 << 20

	// overshoot is by how much a file of the log may become longer than it was made: the last batch is written whole.
	overshoot = 8 << 20

	// A file keeps the room that a start needs, for the log is made anew in part. A start on a full disk removes it.
	ballast      = "reserve"
	ballastBytes = 48 << 20
)

// holdRoom takes what the store may need before anybody looks at the disk again. Etcd makes the files of its log at full length, but
// without their blocks when a signal comes between.
func holdRoom(dir string) error {
	kept, err := os.OpenFile(filepath.Join(dir, ballast), os.O_CREATE, 0o600)
	if err == nil {
		err = kept.Close()
	}
	err = errors.Join(err, reserve(datadir.ToBackendFileName(dir), reserved), reserve(filepath.Join(dir, ballast), ballastBytes))
	for _, pattern := range []string{"*.wal", "*.tmp"} {
		names, _ := filepath.Glob(filepath.Join(datadir.ToWALDir(dir), pattern)) // the pattern is well formed
		for _, name := range names[max(0, len(names)-2):] {
			if e := reserve(name, overshoot); !errors.Is(e, os.ErrNotExist) { // it may get its name just now
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// lighten makes room for a start on a disk that is full.
func lighten(dir string, log *slog.Logger) {
	if left, err := freeOn(dir); err != nil || left >= ballastBytes {
		return
	}
	if err := release(filepath.Join(dir, ballast)); err != nil {
		log.Warn("give back the room that was kept for a start on a full disk", "err", err)
	}
}

// A room watches how much is free where the store lies. It looks when something is written, or somebody asks.
type room struct {
	free func() (bytes uint64, err error)
	hold func() error // keeps room for what may not fail; nil: nothing does
	log  *slog.Logger

	mu    sync.Mutex
	at    time.Time // of the last look
	since int       // bytes written after it
	left  uint64
	short time.Time // since then there is too little; zero: there is enough
}

// newRoom watches the file system that dir is on, and holds some of it for a store that must last.
func newRoom(dir string, lasts bool, log *slog.Logger) *room {
	r := &room{log: log, free: func() (uint64, error) { return freeOn(dir) }}
	if lasts {
		r.hold = func() error { return holdRoom(dir) }
	}
	r.look()
	return r
}

// take refuses a write with ErrNoSpace when the disk is nearly full. It says so once, and once that it is over. A nil room has no end.
//
// Unlike Kubernetes, whose etcd ends when the disk is full, writes are refused before.
func (r *room) take(size int) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since += size; time.Since(r.at) >= roomEvery || r.since >= roomBytes {
		r.look()
	}
	if r.short.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: %s", store.ErrNoSpace, r.says())
}

// says tells how much there is. It needs mu.
func (r *room) says() string {
	return fmt.Sprintf("the disk has %d MiB left, and the last %d are kept back", r.left>>20, keptBack>>20)
}

// refuses says why writes are refused, and since when; "": they are not. A nil room refuses none.
func (r *room) refuses() (why string, since time.Time) {
	if r == nil {
		return "", time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if left, err := r.free(); !r.short.IsZero() || err == nil && left < keptBack {
		r.look()
	}
	if r.short.IsZero() {
		return "", time.Time{}
	}
	return r.says(), r.short
}

func (r *room) look() {
	left, err := r.free()
	if err != nil {
		return // then it is etcd that says what is wrong
	}
	r.at, r.since, r.left = time.Now(), 0, left
	switch {
	case r.short.IsZero() && left < keptBack:
		r.short = r.at
		r.log.Error("the disk of the store is nearly full: writes are refused", "mib", left>>20, "kept", keptBack>>20)
	case !r.short.IsZero() && left >= keptBack+roomAgain:
		r.short = time.Time{}
		r.log.Info("the disk of the store has room again: writes go on", "mib", left>>20)
	}
	if r.short.IsZero() && r.hold != nil {
		if err := r.hold(); err != nil {
			r.log.Debug("reserve room for the database", "err", err) // not every file system can
		}
	}
}

// tight says that this is no time for upkeep that needs room.
func (r *room) tight() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.short.IsZero() {
		r.look()
	}
	return !r.short.IsZero()
}

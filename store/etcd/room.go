package etcd

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/store"
)

// What bounds writes by the room on the disk. Etcd ends the process when it can't write, and reaches for room in large steps: a
// segment of its log is 64 MiB.
const (
	keptBack  = 96 << 20 // refuses writes
	roomAgain = 16 << 20 // so much more ends that
	roomEvery = 100 * time.Millisecond
	roomBytes = 4 << 20 // written: look again at once
)

// A room watches how much is free where the store lies. It looks when something is written, and never otherwise.
type room struct {
	free func() (bytes uint64, err error)
	log  *slog.Logger

	mu    sync.Mutex
	at    time.Time // of the last look
	since int       // bytes written after it
	left  uint64
	short bool
}

// newRoom watches the file system that dir is on.
func newRoom(dir string, log *slog.Logger) *room {
	return &room{log: log, free: func() (uint64, error) {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		return st.Bavail * uint64(st.Bsize), err
	}}
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
	if !r.short {
		return nil
	}
	return fmt.Errorf("%w: the disk has %d MiB left, and the last %d are kept back", store.ErrNoSpace, r.left>>20, keptBack>>20)
}

func (r *room) look() {
	left, err := r.free()
	if err != nil {
		return // then it is etcd that says what is wrong
	}
	r.at, r.since, r.left = time.Now(), 0, left
	switch {
	case !r.short && left < keptBack:
		r.short = true
		r.log.Error("the disk of the store is nearly full: writes are refused", "mib", left>>20, "kept", keptBack>>20)
	case r.short && left >= keptBack+roomAgain:
		r.short = false
		r.log.Info("the disk of the store has room again: writes go on", "mib", left>>20)
	}
}

// tight says that this is no time for upkeep that needs room.
func (r *room) tight() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.short {
		r.look()
	}
	return r.short
}

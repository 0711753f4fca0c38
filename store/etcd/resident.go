package etcd

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/storage/datadir"

	"github.com/kloop-dev/kloop/internal/resident"
)

// restsAfter is the time after a first write at which the pages of the database are let go, again and again while there are
// writes. Pages that are still in use come back with a minor fault each.
const restsAfter = 5 * time.Second

// uses lets the upkeep know that pages of the database file have been touched. It costs one atomic read for all
// calls but the first since the pages were let go.
func (s *Store) uses() {
	if s.Sole() && s.touched.CompareAndSwap(false, true) {
		select {
		case s.warm <- struct{}{}:
		default: // the upkeep was let know and has not come to it yet
		}
	}
}

// rest lets go of the pages.
func (s *Store) rest(context.Context) error {
	if !s.Sole() {
		return nil
	}
	s.touched.Store(false)
	return s.member.letGo()
}

// letGo takes the database file out of this process's resident memory: etcd maps all of it and has the kernel fill
// the whole map, while nearly every read is answered from elsewhere. The pages stay in the kernel's cache, shared and
// free to take, and come back when touched. Only the upkeep may call it, as only the upkeep replaces the file: of a sole
// member nobody else does, and at no other time may the map have moved between looking it up and letting it go.
func (m *member) letGo() error {
	path, err := filepath.EvalSymlinks(datadir.ToBackendFileName(m.dir))
	if err != nil {
		return fmt.Errorf("find the database: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("find the database: %w", err)
	}
	return resident.LetGo(path, "r--s")
}

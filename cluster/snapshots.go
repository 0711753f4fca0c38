package cluster

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/internal/atomicfile"
	"github.com/kloop-dev/kloop/store/member"
)

// noResource stands in errors about things beside the API.
var noResource = schema.GroupResource{Resource: "members"}

// Snapshots says how the embedded store is saved by itself.
type Snapshots struct {
	Every time.Duration // 0: 12 hours; negative: never
	Keep  int           // how many are kept; 0: 5
	Dir   string        // where; "": snapshots, in the data directory
}

// The defaults of Snapshots.
const (
	DefaultSnapshotEvery = 12 * time.Hour
	DefaultSnapshotKeep  = 5
)

func (s *Snapshots) fill(dataDir string) error {
	s.Every, s.Keep = cmp.Or(s.Every, DefaultSnapshotEvery), cmp.Or(s.Keep, DefaultSnapshotKeep)
	if s.Dir == "" {
		s.Dir = filepath.Join(dataDir, "snapshots")
	}
	switch {
	case s.Keep < 0:
		return fmt.Errorf("%d snapshots to keep: can't be negative", s.Keep)
	case s.Every > 0 && s.Every < time.Second:
		return fmt.Errorf("a snapshot every %v: at least a second must lie between two", s.Every)
	}
	return nil
}

// Names of snapshots sort by time.
const (
	snapshotStart = "snapshot-"
	snapshotEnd   = ".db"
	snapshotTime  = "20060102T150405Z"
)

// list returns the snapshots there are, the newest last.
func (s Snapshots) list() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	var list []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), snapshotStart) && strings.HasSuffix(e.Name(), snapshotEnd) {
			list = append(list, filepath.Join(s.Dir, e.Name()))
		}
	}
	slices.Sort(list)
	return list, nil
}

// newest is the newest snapshot and when it was taken; "" when there is none.
func (s Snapshots) newest() (string, time.Time) {
	list, err := s.list()
	if err != nil || len(list) == 0 {
		return "", time.Time{}
	}
	last := list[len(list)-1]
	at, err := time.Parse(snapshotTime, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(last), snapshotStart), snapshotEnd))
	if err != nil {
		return last, time.Time{}
	}
	return last, at
}

// take saves the store under a name of its own, and drops the oldest others beyond those that are kept: others may have names of the
// future, from a time when the clock was wrong.
func (s Snapshots) take(ctx context.Context, st member.Member, now time.Time) (string, error) {
	path := filepath.Join(s.Dir, snapshotStart+now.UTC().Format(snapshotTime)+snapshotEnd)
	if err := SaveSnapshot(path, func(w io.Writer) error { return st.Snapshot(ctx, w) }); err != nil {
		return "", err
	}
	list, err := s.list()
	if err != nil {
		return path, err
	}
	list = slices.DeleteFunc(list, func(other string) bool { return other == path })
	for _, old := range list[:max(0, len(list)-(s.Keep-1))] {
		if err := os.Remove(old); err != nil {
			return path, fmt.Errorf("drop an old snapshot: %w", err)
		}
	}
	return path, nil
}

// SaveSnapshot writes a file in one step: what has the name is whole and on disk.
func SaveSnapshot(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error says more
		}
	}()
	out := bufio.NewWriterSize(f, 256<<10)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	if err = os.Rename(f.Name(), path); err == nil {
		err = atomicfile.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	return nil
}

// saveAgain passes after a snapshot that failed before the next is tried.
const saveAgain = 10 * time.Minute

// snapshots saves the store from time to time, if something was written since. A server that was off for longer
// than that saves soon after its start, but not right then, when there is other work.
func (s *storage) snapshots(ctx context.Context, ready func()) error {
	ready()
	kept := s.cfg.Snapshots
	_, last := kept.newest()
	var saved int64 // revision of the last snapshot; 0: unknown
	for {
		wait := min(max(kept.Every-time.Since(last), time.Minute), kept.Every) // the last may be of the future, as a clock had it
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		now := time.Now()
		rev, err := s.etcd.Revision(ctx)
		if err == nil && rev == saved {
			last = now
			continue
		}
		var path string
		if err == nil {
			path, err = kept.take(ctx, s.etcd, now)
		}
		if err != nil {
			again := min(saveAgain, kept.Every)
			last = now.Add(again - kept.Every)
			if ctx.Err() == nil {
				slog.Warn("save the store", "err", err, "again", again)
			}
			continue
		}
		last = now
		saved = rev
		slog.Info("saved the store", "file", path, "rev", rev, "took", time.Since(last))
	}
}

// giveSnapshot sends the whole store as it is now.
func (s *storage) giveSnapshot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		refuse(w, apierrors.NewMethodNotSupported(noResource, strings.ToLower(r.Method)))
		return
	}
	if _, err := s.etcd.Revision(r.Context()); err != nil {
		refuse(w, memberError(err))
		return
	}
	ctx := context.WithoutCancel(r.Context()) // a large store takes longer than requests may; the client's going away ends it
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := s.etcd.Snapshot(ctx, w); err != nil {
		slog.Warn("send a snapshot", "err", err)
		panic(http.ErrAbortHandler) // half a snapshot must not look whole
	}
}

// explainCorrupt names the newest snapshot in the error about a store that can't be trusted.
func (s *storage) explainCorrupt(err error) error {
	var corrupt *member.CorruptError
	if !errors.As(err, &corrupt) {
		return err
	}
	path, at := s.cfg.Snapshots.newest()
	if path == "" {
		return fmt.Errorf("%w. There is no snapshot in %s", err, s.cfg.Snapshots.Dir)
	}
	return fmt.Errorf("%w. The newest snapshot is %s, taken at %s", err, path, at.Format(time.RFC3339))
}

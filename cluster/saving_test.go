package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/store/member"
)

// saved is a store that can be saved, and not during an outage.
type saved struct {
	member.Member
	rev         int64
	from, until time.Time // the outage
}

func (s *saved) Revision(context.Context) (int64, error) {
	s.rev++ // something was written
	return s.rev, nil
}

func (s *saved) Snapshot(_ context.Context, w io.Writer) error {
	if now := time.Now(); now.After(s.from) && now.Before(s.until) {
		return errors.New("no leader")
	}
	_, err := io.WriteString(w, "data")
	return err
}

// TestSnapshotsInTime: the store is saved when it is due, soon after an outage, and also when snapshots have names of the future.
func TestSnapshotsInTime(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  time.Duration // when the newest snapshot was taken, before the start; 0: there is none
		outage  time.Duration // from the start on
		within  time.Duration // the first is to be there
		atLeast time.Duration // and not before
	}{
		{"the first", 0, 0, 2 * time.Minute, time.Minute},
		{"one that is due later", 2 * time.Hour, 0, 10*time.Hour + time.Minute, 10 * time.Hour},
		{"one that was due while the server was off", 48 * time.Hour, 0, 2 * time.Minute, time.Minute},
		{"after an outage", 0, time.Hour, time.Hour + 11*time.Minute, time.Hour},
		{"after a clock was wrong", -20000 * time.Hour, 0, 12*time.Hour + time.Minute, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				s := &storage{etcd: &saved{from: start, until: start.Add(tt.outage)}}
				s.cfg.Snapshots = Snapshots{Dir: t.TempDir(), Keep: 1}
				if err := s.cfg.Snapshots.fill(""); err != nil {
					t.Fatal(err)
				}
				if tt.before != 0 {
					old := snapshotStart + start.Add(-tt.before).UTC().Format(snapshotTime) + snapshotEnd
					if err := os.WriteFile(filepath.Join(s.cfg.Snapshots.Dir, old), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.within)
				defer cancel()
				if err := s.snapshots(ctx, func() {}); err != nil {
					t.Fatal(err)
				}
				list, err := s.cfg.Snapshots.list()
				if err != nil || len(list) != 1 {
					t.Fatalf("snapshots: %v, %v; want one", list, err)
				}
				_, at := s.cfg.Snapshots.newest()
				if took := at.Sub(start); took < tt.atLeast.Truncate(time.Second) || took > tt.within {
					t.Errorf("the store was saved after %v", took)
				}
			})
		})
	}
}

package instance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
	"github.com/kloop-dev/kloop/examples/postgres/archive"
)

// restore makes data from another cluster's archive, as it was at a time. The archive is only read: WAL from here on goes to this
// cluster's own. PostgreSQL replays before the data gets its final name, so a crash begins it anew.
func (p *Postgres) restore(ctx context.Context, c *v1alpha1.PostgresCluster) error {
	from := c.Spec.RestoreFrom
	fresh := filepath.Join(p.Dir, "fresh")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	var before time.Time
	if from.TargetTime != nil {
		before = from.TargetTime.Time
	}
	if err := archive.Unpack(ctx, archive.URL(from.Cluster), p.SourceToken, before, fresh); err != nil {
		return fmt.Errorf("get a base backup of %s: %w", from.Cluster, err)
	}
	conf := settings(c, p.Name, p.Self, nil) + fmt.Sprintf("archive_command = 'false'\nlisten_addresses = ''\n"+
		"recovery_target_action = 'promote'\nrestore_command = '%s fetch %s %%f %%p'\n", p.Self, archive.URL(from.Cluster))
	if !before.IsZero() {
		conf += fmt.Sprintf("recovery_target_time = '%s'\n", before.UTC().Format("2006-01-02 15:04:05.000000+00"))
	}
	// Replay refuses less than the other cluster ever had, and nobody but us connects.
	conf += "max_connections = 1000\nmax_worker_processes = 64\nmax_prepared_transactions = 100\nmax_locks_per_transaction = 128\n"
	for name, text := range map[string]string{"postgresql.conf": conf, "pg_hba.conf": access, "recovery.signal": "", "upstream.conf": ""} {
		if err := replace(filepath.Join(fresh, name), text); err != nil {
			return err
		}
	}
	if out, err := p.run(ctx, "pg_ctl", "-D", fresh, "-l", filepath.Join(p.Dir, "restore.log"), "-w", "-t", "3600", "start"); err != nil {
		return fmt.Errorf("replay: %w: %s", err, out[max(0, len(out)-1000):])
	}
	if err := p.replayed(ctx); err != nil {
		_, _ = p.run(ctx, "pg_ctl", "-D", fresh, "-m", "immediate", "stop") // the next attempt begins anew
		return err
	}
	if _, err := p.run(ctx, "pg_ctl", "-D", fresh, "-w", "-m", "fast", "stop"); err != nil {
		return err
	}
	return p.adopt(fresh)
}

// replayed waits until recovery has ended. PostgreSQL ends by itself if the time is beyond what was archived.
func (p *Postgres) replayed(ctx context.Context) error {
	for ctx.Err() == nil {
		conn, err := p.local(ctx)
		if err != nil {
			return fmt.Errorf("PostgreSQL has ended before it reached the time: is it archived yet? %w", err)
		}
		var recovering bool
		err = conn.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&recovering)
		_ = conn.Close(ctx)
		if err != nil || !recovering {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
	return ctx.Err()
}

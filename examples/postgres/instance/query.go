package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// dial connects with bounded patience. No statement of the manager's own waits for standbys.
func dial(ctx context.Context, dsn string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = 3 * time.Second
	cfg.RuntimeParams["synchronous_commit"] = "local"
	cfg.RuntimeParams["statement_timeout"] = "30s"
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, cfg)
}

func (p *Postgres) local(ctx context.Context) (*pgx.Conn, error) {
	return dial(ctx, "host=/tmp user=postgres dbname=postgres")
}

func (p *Postgres) remote(ctx context.Context, host string) (*pgx.Conn, error) {
	return dial(ctx, fmt.Sprintf("host=%s user=%s password=%s dbname=postgres", host, streamer, p.Secret))
}

// with runs something over a connection of its own.
func (p *Postgres) with(ctx context.Context, do func(*pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := p.local(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(ctx))
}

func (p *Postgres) reload(ctx context.Context) error {
	if server, _ := p.alive(); server == nil {
		return nil
	}
	return p.with(ctx, func(c *pgx.Conn) error { _, err := c.Exec(ctx, "select pg_reload_conf()"); return err })
}

// shows says whether PostgreSQL has read its settings since they were written, and runs with one of them as wanted.
func (p *Postgres) shows(ctx context.Context, written time.Time, name, want string) (yes bool) {
	if server, _ := p.alive(); server == nil {
		return false
	}
	err := p.with(ctx, func(c *pgx.Conn) error {
		var have string
		var read time.Time
		err := c.QueryRow(ctx, "select current_setting($1), pg_conf_load_time()", name).Scan(&have, &read)
		yes = have == want && !read.Before(written.Truncate(time.Microsecond))
		return err
	})
	return yes && err == nil
}

// Observe implements Server.
func (p *Postgres) Observe(ctx context.Context) (Local, error) {
	l := Local{Data: has(p.data("PG_VERSION")), Broken: has(p.marker()), Signal: has(p.data("standby.signal"))}
	if !l.Data || l.Broken {
		return l, nil
	}
	if server, _ := p.alive(); server == nil {
		return l, p.observeStopped(ctx, &l)
	}
	l.Running, l.Upstream = true, p.upstream
	err := p.with(ctx, func(c *pgx.Conn) error {
		var waiting []string
		if err := c.QueryRow(ctx, `select pg_is_in_recovery(), (select system_identifier::text from pg_control_system()),
			coalesce((select array_agg(name || '=' || setting) from pg_settings where pending_restart), '{}')`).Scan(
			&l.InRecover, &l.SystemID, &waiting); err != nil {
			return err
		}
		l.Restart, l.Lowered = pending(waiting, l.InRecover, p.configured())
		if l.InRecover {
			return p.observeStandby(ctx, c, &l)
		}
		return p.observePrimary(ctx, c, &l)
	})
	return l, err
}

func (p *Postgres) observeStandby(ctx context.Context, c *pgx.Conn, l *Local) error {
	var lsn string
	if err := c.QueryRow(ctx, `select greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), '0/0')::text,
		exists (select from pg_stat_wal_receiver where status = 'streaming'),
		exists (select from pg_stat_activity where backend_type = 'startup'
			and wait_event in ('RecoveryWalStream', 'RecoveryRetrieveRetryInterval')),
		pg_is_wal_replay_paused()`).Scan(&lsn, &l.Receiving, &l.AtEnd, &l.Paused); err != nil {
		return err
	}
	var err error
	if l.LSN, err = parseLSN(lsn); err != nil {
		return err
	}
	l.Timeline, err = p.timeline(l.LSN)
	return err
}

func (p *Postgres) observePrimary(ctx context.Context, c *pgx.Conn, l *Local) error {
	var lsn, file, failed string
	var streaming []string
	if err := c.QueryRow(ctx, `select pg_current_wal_lsn()::text, pg_walfile_name(pg_current_wal_lsn()),
		coalesce((select array_agg(application_name::text order by application_name) from pg_stat_replication
			where state = 'streaming' and replay_lsn is not null), '{}'),
		coalesce((select last_failed_wal from pg_stat_archiver
			where last_failed_time > coalesce(last_archived_time, '-infinity')), '')`).Scan(&lsn, &file, &streaming, &failed); err != nil {
		return err
	}
	l.Streaming, l.Archive = slices.Compact(streaming), failed
	p.unarchived = failed
	var err error
	if l.LSN, err = parseLSN(lsn); err != nil {
		return err
	}
	l.Timeline, err = strconv.ParseInt(file[:8], 16, 64)
	return err
}

// observeStopped reads the control file.
func (p *Postgres) observeStopped(ctx context.Context, l *Local) error {
	out, err := p.run(ctx, "pg_controldata", "-D", p.data())
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); name {
		case "Database system identifier":
			l.SystemID = value
		case "Database cluster state":
			l.Clean = value == "shut down" && !l.Signal
		case "Latest checkpoint location":
			if l.LSN, err = parseLSN(value); err != nil {
				return err
			}
		case "Latest checkpoint's TimeLineID":
			if l.Timeline, err = strconv.ParseInt(value, 10, 64); err != nil {
				return err
			}
		}
	}
	return nil
}

// timeline is that of the WAL before an LSN, by the names of files: a standby's control file is behind.
func (p *Postgres) timeline(lsn uint64) (newest int64, err error) {
	const segment = 16 << 20
	files, err := os.ReadDir(p.data("pg_wal"))
	if err != nil {
		return 0, err
	}
	n := max(lsn, 1) - 1
	want := fmt.Sprintf("%08X%08X", n>>32, n&0xffffffff/segment)
	for _, f := range files {
		if name := f.Name(); len(name) == 24 && name[8:] == want {
			if t, err := strconv.ParseInt(name[:8], 16, 64); err == nil {
				newest = max(newest, t)
			}
		}
	}
	return newest, nil
}

// parseLSN reads an LSN as PostgreSQL writes it.
func parseLSN(s string) (uint64, error) {
	high, low, ok := strings.Cut(s, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err != nil || err2 != nil {
		return 0, fmt.Errorf("%q is no LSN", s)
	}
	return h<<32 | l, nil
}

// Follow implements Server.
func (p *Postgres) Follow(ctx context.Context, upstream string) error {
	p.upstream = upstream
	if err := p.writeUpstream(); err != nil {
		return err
	}
	return p.reload(ctx)
}

// Promote implements Server. It returns when writes are taken.
func (p *Postgres) Promote(ctx context.Context) error {
	return p.with(ctx, func(c *pgx.Conn) error {
		var done bool
		if err := c.QueryRow(ctx, "select pg_promote(true, 10)").Scan(&done); err != nil || !done {
			return fmt.Errorf("promotion has not ended: %w", err)
		}
		p.upstream = ""
		return nil
	})
}

// Tend implements Server: a primary has the roles, the database, and a slot for each standby, and no others. An archive that is back is
// used at once.
func (p *Postgres) Tend(ctx context.Context, standbys []string) error {
	return p.with(ctx, func(c *pgx.Conn) error {
		if err := p.roles(ctx, c); err != nil {
			return err
		}
		var want []string
		for _, s := range standbys {
			want = append(want, slot(s))
		}
		_, err := c.Exec(ctx, `select pg_create_physical_replication_slot(w, true) from unnest($1::text[]) w
			where not exists (select from pg_replication_slots where slot_name = w)`, want)
		if err != nil {
			return fmt.Errorf("make slots: %w", err)
		}
		_, err = c.Exec(ctx, `select pg_drop_replication_slot(slot_name) from pg_replication_slots
			where slot_type = 'physical' and not temporary and not active and (slot_name <> all ($1::text[]) or wal_status = 'lost')`, want)
		if err != nil {
			return fmt.Errorf("drop slots: %w", err)
		}
		return p.wakeArchiver(ctx, c)
	})
}

// wakeArchiver has PostgreSQL try again to archive what it could not, when the archive answers: by itself it waits a minute after its third
// try. Any signal wakes it, and that to read the settings does nothing else.
func (p *Postgres) wakeArchiver(ctx context.Context, c *pgx.Conn) error {
	if p.unarchived == "" || time.Since(p.woken) < 5*time.Second || !p.Archive(ctx) {
		return nil
	}
	p.woken = time.Now()
	if _, err := c.Exec(ctx, "select pg_reload_conf()"); err != nil {
		return fmt.Errorf("wake the archiver: %w", err)
	}
	return nil
}

// roles makes the roles and the database app, once for each life of the process: passwords may be another's after a restore.
func (p *Postgres) roles(ctx context.Context, c *pgx.Conn) error {
	if p.tended {
		return nil
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	for _, role := range []string{streamer + " login replication", "app login"} {
		name, _, _ := strings.Cut(role, " ")
		if _, err := c.Exec(ctx, `do $$ begin create role `+role+`; exception when duplicate_object then end $$`); err != nil {
			return fmt.Errorf("make role %s: %w", name, err)
		}
	}
	for _, statement := range []string{
		"alter role " + streamer + " password " + quote(p.Secret), "alter role app password " + quote(p.AppPassword),
		"grant pg_checkpoint to " + streamer,
		"grant execute on function pg_ls_dir(text, boolean, boolean), pg_stat_file(text, boolean), pg_read_binary_file(text), " +
			"pg_read_binary_file(text, bigint, bigint, boolean) to " + streamer, // what pg_rewind calls
	} {
		if _, err := c.Exec(ctx, statement); err != nil {
			return fmt.Errorf("set up roles: %w", err)
		}
	}
	var there bool
	if err := c.QueryRow(ctx, "select exists (select from pg_database where datname = 'app')").Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := c.Exec(ctx, "create database app owner app"); err != nil {
			return fmt.Errorf("make the database: %w", err)
		}
	}
	p.tended = true
	return nil
}

package instance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// streamer is the role that standbys and the archive connect as.
const streamer = "streamer"

const access = `local all postgres peer
local all all scram-sha-256
host replication streamer all scram-sha-256
host all all all scram-sha-256
`

// settings returns postgresql.conf. Later lines win, so ours are last.
func settings(c *v1alpha1.PostgresCluster, me, self string) string {
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''")) }
	set("shared_buffers", "32MB")
	set("max_connections", "100")
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Parameters)) {
		if !strings.ContainsAny(name+c.Spec.Parameters[name], "\n\r\\") {
			set(name, c.Spec.Parameters[name])
		}
	}
	for _, s := range [][2]string{
		{"listen_addresses", "*"}, {"unix_socket_directories", "/tmp"}, {"password_encryption", "scram-sha-256"},
		{"wal_level", "replica"}, {"wal_log_hints", "on"}, {"hot_standby", "on"}, {"fsync", "on"}, {"full_page_writes", "on"},
		{"max_wal_senders", "20"}, {"max_replication_slots", "20"}, {"wal_keep_size", "64MB"}, {"max_slot_wal_keep_size", "1GB"},
		{"wal_sender_timeout", "5s"}, {"wal_receiver_timeout", "5s"}, {"wal_retrieve_retry_interval", "500ms"},
		{"wal_receiver_status_interval", "1s"}, {"logging_collector", "off"}, {"log_destination", "stderr"},
		{"cluster_name", me}, {"primary_slot_name", slot(me)}, {"recovery_target_timeline", "latest"},
		{"archive_mode", "on"}, {"archive_timeout", "30s"}, {"synchronous_standby_names", waitsFor(c.Status.Quorum, me)},
	} {
		set(s[0], s[1])
	}
	archive := "true" // without an archive nothing is kept; archive_mode itself can't change without a restart
	if c.Spec.BackupSchedule != "" {
		archive = self + " push %p %f"
	}
	set("archive_command", archive)
	b.WriteString("include_if_exists = 'upstream.conf'\n")
	return b.String()
}

// waitsFor is the value of synchronous_standby_names.
func waitsFor(q *v1alpha1.Quorum, me string) string {
	if q == nil || q.Number == 0 {
		return ""
	}
	var names []string
	for _, n := range q.Members {
		if n != me {
			names = append(names, `"`+n+`"`)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("ANY %d (%s)", q.Number, strings.Join(names, ", "))
}

// slot is the name of an instance's slot: slots have no dashes and no dots.
func slot(instance string) string { return strings.NewReplacer("-", "_", ".", "_").Replace(instance) }

// Configure implements Server: files that differ are written, and read by a PostgreSQL that runs. It says whether what it has read is
// what is wanted.
func (p *Postgres) Configure(ctx context.Context, c *v1alpha1.PostgresCluster) (bool, error) {
	changed := false
	for name, text := range map[string]string{"postgresql.conf": settings(c, p.Name, p.Self), "pg_hba.conf": access} {
		have, err := os.ReadFile(p.data(name))
		if err == nil && string(have) == text {
			continue
		}
		changed = true
		if err := replace(p.data(name), text); err != nil {
			return false, err
		}
	}
	if changed {
		return false, p.reload(ctx)
	}
	file, err := os.Stat(p.data("postgresql.conf"))
	return err == nil && p.shows(ctx, file.ModTime(), "synchronous_standby_names", waitsFor(c.Status.Quorum, p.Name)), err
}

// writeUpstream says whom a standby receives from.
func (p *Postgres) writeUpstream() error {
	text := "primary_conninfo = ''\n"
	if p.upstream != "" {
		text = fmt.Sprintf("primary_conninfo = 'host=%s user=%s password=%s application_name=%s connect_timeout=3'\n",
			p.upstream, streamer, p.Secret, p.Name)
	}
	return replace(p.data("upstream.conf"), text)
}

// replace writes a file whole or not at all.
func replace(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

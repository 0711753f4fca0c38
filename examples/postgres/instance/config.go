package instance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
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

// shared are the settings that a standby may not have lower than its primary has, as the control file names them, and their defaults.
// See https://www.postgresql.org/docs/15/hot-standby.html#HOT-STANDBY-ADMIN. max_wal_senders is one too, and always the same here.
var shared = map[string]struct {
	control string
	usual   int
}{
	"max_connections":           {"max_connections setting", 100},
	"max_worker_processes":      {"max_worker_processes setting", 8},
	"max_prepared_transactions": {"max_prepared_xacts setting", 0},
	"max_locks_per_transaction": {"max_locks_per_xact setting", 64},
}

// settings returns postgresql.conf. Later lines win, so ours are last. Shared settings are no lower than floor says.
func settings(c *v1alpha1.PostgresCluster, me, self string, floor map[string]int) string {
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''")) }
	set("shared_buffers", "32MB")
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		set(name, strconv.Itoa(max(shared[name].usual, floor[name])))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Parameters)) {
		value := c.Spec.Parameters[name]
		if n, err := strconv.Atoi(value); err == nil {
			value = strconv.Itoa(max(n, floor[strings.ToLower(name)]))
		}
		if !strings.ContainsAny(name+value, "\n\r\\") {
			set(name, value)
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
	p.cluster = c
	floor, err := p.floor(ctx, c)
	if err != nil {
		return false, err
	}
	changed := false
	for name, text := range map[string]string{"postgresql.conf": settings(c, p.Name, p.Self, floor), "pg_hba.conf": access} {
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

// floor returns the least that a standby needs of the shared settings, as the WAL that it has replayed says. A primary needs nothing.
// While it runs with no more than is wanted, there is nothing to find out.
func (p *Postgres) floor(ctx context.Context, c *v1alpha1.PostgresCluster) (map[string]int, error) {
	if !has(p.data("standby.signal")) {
		return nil, nil
	}
	if server, _ := p.alive(); server != nil && len(lower(p.configured(), settings(c, p.Name, p.Self, nil))) == 0 {
		return nil, nil
	}
	out, err := p.run(ctx, "pg_controldata", "-D", p.data())
	return controlled(out), err
}

// controlled reads the shared settings from what pg_controldata prints.
func controlled(out string) map[string]int {
	floor := map[string]int{}
	for line := range strings.Lines(out) {
		title, value, _ := strings.Cut(line, ":")
		for name, s := range shared {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); s.control == title && err == nil {
				floor[name] = n
			}
		}
	}
	return floor
}

// configured returns the present postgresql.conf; empty: there is none.
func (p *Postgres) configured() string {
	text, _ := os.ReadFile(p.data("postgresql.conf"))
	return string(text)
}

// lower lists the shared settings that are lower in one postgresql.conf than in another.
func lower(than, conf string) (names []string) {
	have, want := sharedIn(than), sharedIn(conf)
	for name, n := range want {
		if n < have[name] {
			names = append(names, name)
		}
	}
	return names
}

// sharedIn reads the shared settings of a postgresql.conf.
func sharedIn(conf string) map[string]int {
	found := map[string]int{}
	for line := range strings.Lines(conf) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		name = strings.ToLower(name)
		if n, err := strconv.Atoi(strings.Trim(value, "'")); err == nil && shared[name].control != "" {
			found[name] = n
		}
	}
	return found
}

// pending says what the settings that wait for a restart ask for, with the values in force: of a primary that only lowers what standbys
// may not have lower, that it restarts where it is. A hand-over would not help: its successor may not have them lower either.
func pending(waiting []string, inRecover bool, conf string) (restart, lowered bool) {
	want := sharedIn(conf)
	for _, w := range waiting {
		name, value, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(value)
		if wanted, ok := want[name]; inRecover || !ok || err != nil || wanted >= n {
			return true, false
		}
	}
	return false, len(waiting) > 0
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

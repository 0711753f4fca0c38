package instance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// Postgres is the real Server: PostgreSQL's programs, found on the path, over a directory.
type Postgres struct {
	Dir         string // of a volume of its own; the data is in Dir/data
	Name        string // of the instance
	Secret      string // password of the role that streams
	AppPassword string // password of the role app
	SourceToken string // for the archive of the cluster that this one begins as
	Self        string // path of this program: PostgreSQL calls it to archive
	Log         *slog.Logger

	// Archive says whether the archive answers. It returns within a second or two.
	Archive func(context.Context) bool

	version  string
	upstream string
	cluster  *v1alpha1.PostgresCluster // by which it was configured last
	lock     *os.File

	mu     sync.Mutex
	ended  chan struct{} // closed when the process has ended; nil: there is none
	server *os.Process
	tended bool // the roles are there

	unarchived string    // WAL that could not be archived when it was last looked
	woken      time.Time // when the archiver was last woken
}

// Open takes the volume for this process alone, also against another pod on the same node, and reads the version. It waits until
// the volume is free.
func (p *Postgres) Open(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "postgres", "--version").Output()
	if err != nil {
		return fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	if words := strings.Fields(string(out)); len(words) > 2 {
		p.version = words[2]
	}
	if p.lock, err = os.OpenFile(filepath.Join(p.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fmt.Errorf("open the volume's lock: %w", err)
	}
	for ctx.Err() == nil {
		err := syscall.Flock(int(p.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
	return ctx.Err()
}

// Version implements Server.
func (p *Postgres) Version() string { return p.version }

func (p *Postgres) data(names ...string) string {
	return filepath.Join(append([]string{p.Dir, "data"}, names...)...)
}

func has(path string) bool { _, err := os.Stat(path); return err == nil }

// run runs one of PostgreSQL's programs to its end.
func (p *Postgres) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+p.Secret, "PGCONNECT_TIMEOUT=3")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(errs.String())
		return out.String(), fmt.Errorf("%s: %w: %s", name, err, text[max(0, len(text)-500):])
	}
	return out.String(), nil
}

// StartPrimary implements Server.
func (p *Postgres) StartPrimary(ctx context.Context) error { return p.start(ctx) }

// StartStandby implements Server.
func (p *Postgres) StartStandby(ctx context.Context, upstream string) error {
	if err := os.WriteFile(p.data("standby.signal"), nil, 0o600); err != nil {
		return fmt.Errorf("set the data up for a standby: %w", err)
	}
	if p.cluster != nil { // a former primary may have to be given more than is wanted, before it is a standby
		if _, err := p.Configure(ctx, p.cluster); err != nil {
			return err
		}
	}
	p.upstream = upstream
	if err := p.writeUpstream(); err != nil {
		return err
	}
	return p.start(ctx)
}

// start returns when PostgreSQL answers, has ended, or ctx has.
func (p *Postgres) start(ctx context.Context) error {
	p.sweep()
	if err := os.Remove(p.data("postmaster.pid")); err != nil && !os.IsNotExist(err) { // the volume's lock is ours: it is a dead one's
		return err
	}
	if err := os.Chmod(p.data(), 0o700); err != nil { // a volume that was given to a group is open to it
		return fmt.Errorf("close the data to others: %w", err)
	}
	cmd := exec.Command("postgres", "-D", p.data())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	p.mu.Lock()
	if err := cmd.Start(); err != nil {
		p.mu.Unlock()
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	ended := make(chan struct{})
	p.server, p.ended, p.tended = cmd.Process, ended, false
	p.mu.Unlock()
	go func() {
		for in := bufio.NewScanner(errs); in.Scan(); {
			p.Log.Info("postgres", "line", in.Text())
		}
		err := cmd.Wait()
		p.Log.Info("PostgreSQL has ended", "err", err)
		p.mu.Lock()
		p.server, p.ended = nil, nil
		p.mu.Unlock()
		close(ended)
	}()
	for {
		conn, err := p.local(ctx)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ended:
			return errors.New("PostgreSQL ended as it started")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// sweep ends and buries what a PostgreSQL that was killed has left. As the first process of a pod, all others are its own.
func (p *Postgres) sweep() {
	if os.Getpid() != 1 {
		return
	}
	_ = syscall.Kill(-1, syscall.SIGKILL) // nobody may be there
	for range 1000 {
		if pid, err := syscall.Wait4(-1, nil, 0, nil); pid <= 0 || err != nil {
			return
		}
	}
}

// alive returns the process and what closes when it has ended.
func (p *Postgres) alive() (*os.Process, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server, p.ended
}

// Stop implements Server: a fast shutdown, which ends when the standbys that stream have all that was written.
func (p *Postgres) Stop(ctx context.Context) error {
	server, ended := p.alive()
	if server == nil {
		return nil
	}
	if err := server.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	p.Kill("it did not stop")
	return nil
}

// Kill implements Server: PostgreSQL ends at once, without telling anybody. It returns when it has.
func (p *Postgres) Kill(reason string) {
	server, ended := p.alive()
	if server == nil {
		return
	}
	p.Log.Warn("PostgreSQL is killed", "reason", reason)
	_ = server.Signal(syscall.SIGQUIT) // if it has ended, ended is closed
	select {
	case <-ended:
		return
	case <-time.After(time.Second):
	}
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
	} else {
		_ = server.Kill()
	}
	<-ended
}

// Init implements Server. Data counts only when it has its final name.
func (p *Postgres) Init(ctx context.Context, c *v1alpha1.PostgresCluster) error {
	if c.Spec.RestoreFrom != nil {
		return p.restore(ctx, c)
	}
	fresh := filepath.Join(p.Dir, "fresh")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if _, err := p.run(ctx, "initdb", "-D", fresh, "--username=postgres", "--data-checksums", "--encoding=UTF8", "--locale=C.UTF-8",
		"--auth-local=peer", "--auth-host=scram-sha-256"); err != nil {
		return err
	}
	return p.adopt(fresh)
}

// adopt makes a directory the data. What was the data before goes only when the new one is whole.
func (p *Postgres) adopt(fresh string) error {
	old := filepath.Join(p.Dir, "old")
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(p.data(), old); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Rename(fresh, p.data()); err != nil {
		return err
	}
	if err := os.Remove(p.marker()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.RemoveAll(old)
}

// marker is there while the data is being rewound.
func (p *Postgres) marker() string { return filepath.Join(p.Dir, "rewinding") }

// Clone implements Server.
func (p *Postgres) Clone(ctx context.Context, upstream string) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	fresh := filepath.Join(p.Dir, "fresh")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if _, err := p.run(ctx, "pg_basebackup", "-h", upstream, "-U", streamer, "-D", fresh, "-X", "stream", "-c", "fast"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, "standby.signal"), nil, 0o600); err != nil {
		return err
	}
	return p.adopt(fresh)
}

// Rewind implements Server. The data can't be used while the marker is there.
func (p *Postgres) Rewind(ctx context.Context, upstream string) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	conn, err := p.remote(ctx, upstream)
	if err != nil {
		return fmt.Errorf("reach the primary: %w", err)
	}
	_, err = conn.Exec(ctx, "checkpoint") // until then the primary's control file names the timeline before it was promoted
	_ = conn.Close(ctx)
	if err != nil {
		return fmt.Errorf("checkpoint of the primary: %w", err)
	}
	_ = os.Remove(p.data("standby.signal")) // or the crash recovery that comes first would never end
	_ = os.Remove(p.data("postmaster.pid"))
	if err := os.WriteFile(p.marker(), nil, 0o600); err != nil {
		return err
	}
	if _, err := p.run(ctx, "pg_rewind", "-D", p.data(), "--source-server",
		fmt.Sprintf("host=%s user=%s dbname=postgres", upstream, streamer)); err != nil {
		p.Log.Warn("the data can't be rewound; it is cloned instead", "err", err)
		return nil // the marker stands
	}
	if err := os.WriteFile(p.data("standby.signal"), nil, 0o600); err != nil {
		return err
	}
	return os.Remove(p.marker())
}

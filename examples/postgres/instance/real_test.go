package instance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// realDir names the directory of a test that runs as PostgreSQL's owner.
const realDir = "REAL_POSTGRES_DIR"

// realServer returns a real PostgreSQL's Server, without data yet, for a minute. PostgreSQL refuses root: as root the test is run again by
// PostgreSQL's owner, in a network of its own, and there is nothing left to do here: the Server is nil.
func realServer(t *testing.T) (*Postgres, context.Context) {
	t.Helper()
	bin, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	owner, err := user.Lookup("postgres") // its superuser is known by that name
	switch {
	case len(bin) == 0 || err != nil:
		t.Skip("there is no PostgreSQL here")
	case os.Getuid() == 0:
		asAnother(t, owner)
		return nil, nil
	case os.Getenv(realDir) == "":
		t.Skip("it needs root, for a network of its own")
	}
	t.Setenv("PATH", bin[len(bin)-1]+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	p := &Postgres{Dir: os.Getenv(realDir), Name: "c-1", Secret: "s", AppPassword: "a", Self: "/self",
		Archive: func(context.Context) bool { return false }, Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { p.Kill("the test ends"); cancel() })
	return p, ctx
}

// asAnother runs this test again, as another user, in a network of its own.
func asAnother(t *testing.T, owner *user.User) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	uid, err1 := strconv.Atoi(owner.Uid)
	gid, err2 := strconv.Atoi(owner.Gid)
	self, data := filepath.Join(dir, "test"), filepath.Join(dir, "data")
	program, err := os.ReadFile(os.Args[0])
	if err := errors.Join(err, err1, err2, os.WriteFile(self, program, 0o755), os.Mkdir(data, 0o700), os.Chown(data, uid, gid),
		os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = data, append(os.Environ(), realDir+"="+data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
		Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestArchiveComesBack: what an archive did not take it is given as soon as it answers, not a minute later.
func TestArchiveComesBack(t *testing.T) {
	p, ctx := realServer(t)
	if p == nil {
		return
	}
	there := filepath.Join(p.Dir, "there")
	p.Self = filepath.Join(p.Dir, "push")
	p.Archive = func(context.Context) bool { return has(there) }
	c := &v1alpha1.PostgresCluster{}
	c.Spec.BackupSchedule = "0 2 * * *"
	var now Local
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for range 300 {
			var err error
			now, err = p.Observe(ctx)
			do("observe", err)
			do("tend", p.Tend(ctx, nil))
			if ok() {
				return
			}
			pause(ctx, 50*time.Millisecond)
		}
		t.Fatalf("%s: %+v", what, now)
	}

	tries := filepath.Join(p.Dir, "tries")
	do("write the command", os.WriteFile(p.Self, []byte("#!/bin/sh\necho >>"+tries+"\ntest -e "+there+"\n"), 0o755))
	do("init", p.Init(ctx, c))
	_, err := p.Configure(ctx, c)
	do("configure", err)
	do("start", p.StartPrimary(ctx))
	do("switch", p.with(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "create table t(); select pg_switch_wal()")
		return err
	}))
	until("the third try failed", func() bool {
		text, _ := os.ReadFile(tries)
		return now.Archive != "" && len(text) >= 3
	})
	do("the archive is back", os.WriteFile(there, nil, 0o600))
	until("the archive has all", func() bool { return now.Archive == "" })
}

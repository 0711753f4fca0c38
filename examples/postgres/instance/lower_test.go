package instance

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// TestPending: only a primary that lowers nothing but what it shares with its standbys restarts where it is.
func TestPending(t *testing.T) {
	conf := "max_connections = '100'\nMAX_CONNECTIONS = '50'\nmax_worker_processes = '9'\n"
	for _, tt := range []struct {
		name             string
		waiting          []string
		standby          bool
		restart, lowered bool
	}{
		{"nothing waits", nil, false, false, false},
		{"lowered on a primary", []string{"max_connections=100"}, false, false, true},
		{"lowered on a standby", []string{"max_connections=100"}, true, true, false},
		{"raised", []string{"max_connections=40"}, false, true, false},
		{"one lowered, one raised", []string{"max_connections=100", "max_worker_processes=8"}, false, true, false},
		{"lowered beside a setting of another sort", []string{"max_connections=100", "shared_buffers=4096"}, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if restart, lowered := pending(tt.waiting, tt.standby, conf); restart != tt.restart || lowered != tt.lowered {
				t.Errorf("%v, standby %t: restart %t, lowered %t", tt.waiting, tt.standby, restart, lowered)
			}
		})
	}
}

// TestFloor: a standby has no less than its primary, however the setting is written.
func TestFloor(t *testing.T) {
	c := &v1alpha1.PostgresCluster{}
	c.Spec.Parameters = map[string]string{"Max_Connections": "50", "max_worker_processes": "abc"}
	floor := controlled("Latest checkpoint location: 0/1\nmax_connections setting:              120\nmax_xacts setting: 3\n" +
		"max_prepared_xacts setting: 7\n")
	conf := settings(c, "c-1", "/self", floor)
	want := map[string]int{"max_connections": 120, "max_prepared_transactions": 7, "max_locks_per_transaction": 64,
		"max_worker_processes": 8}
	if got := sharedIn(conf); !maps.Equal(got, want) {
		t.Errorf("a standby has %v, want %v", got, want)
	}
	if got := sharedIn(settings(c, "c-1", "/self", nil))["max_connections"]; got != 50 {
		t.Errorf("a primary has %d connections, want 50", got)
	}
	if !strings.Contains(conf, "max_worker_processes = 'abc'\n") {
		t.Error("what is no number is PostgreSQL's to refuse")
	}
}

// TestLower: with a real PostgreSQL, a former primary starts as standby although its connections were lowered meanwhile, and restarts
// with less when it is primary again.
func TestLower(t *testing.T) {
	bin, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	owner, err := user.Lookup("postgres") // its superuser is known by that name
	switch {
	case len(bin) == 0 || err != nil:
		t.Skip("there is no PostgreSQL here")
	case os.Getuid() == 0:
		asAnother(t, owner) // PostgreSQL refuses root
		return
	case os.Getenv("LOWER_DIR") == "":
		t.Skip("it needs root, for a network of its own")
	}
	t.Setenv("PATH", bin[len(bin)-1]+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &Postgres{Dir: os.Getenv("LOWER_DIR"), Name: "c-1", Secret: "s", AppPassword: "a", Self: "/self", Log: slog.New(slog.DiscardHandler)}
	defer p.Kill("the test ends")
	c := &v1alpha1.PostgresCluster{}
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	configure := func(connections string) {
		t.Helper()
		c.Spec.Parameters = map[string]string{"max_connections": connections}
		_, err := p.Configure(ctx, c)
		do("configure", err)
	}
	now := func() Local {
		t.Helper()
		l, err := p.Observe(ctx)
		do("observe", err)
		return l
	}
	runs := func(want string) {
		t.Helper()
		do("ask", p.with(ctx, func(conn *pgx.Conn) error {
			var have string
			err := conn.QueryRow(ctx, "show max_connections").Scan(&have)
			if have != want {
				t.Errorf("max_connections is %s, want %s", have, want)
			}
			return err
		}))
	}
	// settings are read a moment after they were written
	until := func(what string, ok func(Local) bool) {
		t.Helper()
		for range 100 {
			if ok(now()) {
				return
			}
			pause(ctx, 50*time.Millisecond)
		}
		t.Fatalf("%s: %+v", what, now())
	}

	do("init", p.Init(ctx, c))
	configure("60")
	do("start", p.StartPrimary(ctx))
	runs("60")
	configure("30")
	until("a primary whose connections were lowered", func(l Local) bool { return l.Lowered && !l.Restart })
	do("stop", p.Stop(ctx))
	do("start as standby", p.StartStandby(ctx, ""))
	configure("30")
	runs("60")
	if l := now(); l.Restart || l.Lowered {
		t.Errorf("a standby has something to do before its primary: %+v", l)
	}
	do("promote", p.Promote(ctx))
	configure("30")
	until("it is primary again", func(l Local) bool { return l.Lowered && !l.InRecover })
	do("stop", p.Stop(ctx))
	configure("30")
	do("start", p.StartPrimary(ctx))
	runs("30")
	if l := now(); l.Restart || l.Lowered {
		t.Errorf("there is something to do still: %+v", l)
	}
}

// asAnother runs this test again, as another user, in a network of its own.
func asAnother(t *testing.T, owner *user.User) {
	dir, err := os.MkdirTemp("/tmp", "lower")
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
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestLower$")
	cmd.Dir, cmd.Env = data, append(os.Environ(), "LOWER_DIR="+data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
		Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

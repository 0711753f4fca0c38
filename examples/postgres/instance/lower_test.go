package instance

import (
	"maps"
	"strings"
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
	p, ctx := realServer(t)
	if p == nil {
		return
	}
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

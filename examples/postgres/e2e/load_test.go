//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A load is several clients that write one row after the other through the Service, and remember what was acknowledged.
type load struct {
	dsn  string
	stop context.CancelFunc
	all  sync.WaitGroup

	mu    sync.Mutex
	acked map[int64]time.Time
	next  int64
	last  time.Time     // of an acknowledgement
	gap   time.Duration // the longest time without one since it was asked
}

func dial(ctx context.Context, node int, dsn string, notices ...pgconn.NoticeHandler) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.DialFunc, cfg.ConnectTimeout = dialer(node), 2*time.Second
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	for _, n := range notices {
		cfg.OnNotice = n
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// write starts the clients, with keys from the one after first.
func write(ctx context.Context, dsn string, first int64, clients int) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{dsn: dsn, stop: stop, acked: map[int64]time.Time{}, next: first, last: time.Now()}
	for range clients {
		l.all.Go(func() { l.client(ctx) })
	}
	return l
}

func (l *load) client(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.session(ctx); err != nil {
			pause(50 * time.Millisecond)
		}
	}
}

// session writes over one connection until something goes wrong. A key is never used twice: whether a write that was not acknowledged
// was done, nobody knows.
func (l *load) session(ctx context.Context) error {
	warned := false // a commit did not wait for a standby: that is no acknowledgement
	conn, err := dial(ctx, 0, l.dsn, func(*pgconn.PgConn, *pgconn.Notice) { warned = true })
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	for ctx.Err() == nil {
		l.mu.Lock()
		l.next++
		key := l.next
		l.mu.Unlock()
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := conn.Exec(one, "insert into acked values ($1)", key)
		cancel()
		if err != nil || warned {
			return err
		}
		l.ack(key)
	}
	return nil
}

func (l *load) ack(key int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.gap, l.last, l.acked[key] = max(l.gap, now.Sub(l.last)), now, now
}

// since returns the longest time without an acknowledgement since the last call, what lasts still included.
func (l *load) since() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := max(l.gap, time.Since(l.last))
	l.gap = 0
	return gap
}

// after says whether there was an acknowledgement after a time.
func (l *load) after(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.After(t)
}

// end stops the clients and returns the keys that were acknowledged.
func (l *load) end() map[int64]time.Time {
	l.stop()
	l.all.Wait()
	return l.acked
}

// lost lists keys that were acknowledged and are not there.
func (l *load) lost(ctx context.Context) (list []string, err error) {
	conn, err := dial(ctx, 0, l.dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(ctx, "select key from acked")
	if err != nil {
		return nil, err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	there := map[int64]bool{}
	for _, k := range keys {
		there[k] = true
	}
	for k, at := range l.acked {
		if !there[k] {
			list = append(list, fmt.Sprintf("%d of %s", k, at.Format(time.StampMilli)))
		}
	}
	return list, nil
}

package scheduler

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// panicky panics some times: while they are written, or where the scheduler begins.
type panicky struct {
	client.Client
	mu    sync.Mutex
	left  int
	begin bool
}

func (p *panicky) now() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	return p.left >= 0
}

func (p *panicky) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	if !p.begin && p.now() {
		panic("while it writes")
	}
	return p.Client.Call(ctx, k, ns, name, sub, in)
}

func (p *panicky) Kinds() *resource.Set {
	if p.begin && p.now() {
		panic("while it begins")
	}
	return p.Client.Kinds()
}

// A panic on any of its goroutines ends neither the process nor the scheduling, and is in the log.
func TestPanics(t *testing.T) {
	for what, begins := range map[string]bool{"while it writes": false, "while it begins": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, false)
				var out bytes.Buffer
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- New(Config{}).Run(ctx, loop.Env{Client: &panicky{Client: w.Local, left: 3, begin: begins},
						Log: slog.New(slog.NewTextHandler(&out, nil))})
				}()
				w.create(node("n1", "", ""))
				w.create(pod("p", "", "cpu=1", ""))
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := w.node("p"); n != "n1" {
					t.Errorf("the pod is on %q", n)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if n := strings.Count(out.String(), "panic: "+what); n != 3 {
					t.Errorf("%d panics in the log, want 3: %s", n, out.String())
				}
			})
		})
	}
}

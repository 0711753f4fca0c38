package eventually

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A witness is a test that notes its failure.
type witness struct {
	testing.TB
	ctx    context.Context
	failed string
}

func (w *witness) Helper()                  {}
func (w *witness) Context() context.Context { return w.ctx }
func (w *witness) Fatalf(format string, args ...any) {
	w.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// said runs f as a test of its own and returns how it failed; "" when it did not.
func said(ctx context.Context, f func(t testing.TB)) string {
	w, done := &witness{ctx: ctx}, make(chan struct{})
	go func() {
		defer close(done)
		f(w)
	}()
	<-done
	return w.failed
}

// TestSees: what comes in time is seen, what does not fails with what was there at last, in a cleanup too.
func TestSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		counting := func() (bool, int) { looks++; return time.Since(began) >= 10*time.Second, looks }
		if text := said(t.Context(), func(t testing.TB) { Sees(t, time.Minute, "ten seconds", counting) }); text != "" {
			t.Error(text)
		}
		if took := time.Since(began); took > 10*time.Second+lastPause || looks > 120 {
			t.Errorf("seen after %s and %d looks", took, looks)
		}
		began = time.Now()
		text := said(t.Context(), func(t testing.TB) { Sees(t, time.Second, "the sea", func() (bool, string) { return false, "sand" }) })
		if !strings.Contains(text, "the sea: not within 1s") || !strings.Contains(text, "sand") || time.Since(began) > time.Second+2*lastPause {
			t.Errorf("after %s: %q", time.Since(began), text)
		}
		if text := said(t.Context(), func(t testing.TB) { True(t, "no", func() bool { return false }) }); !strings.Contains(text,
			"not within 1m0s") {
			t.Errorf("%q", text)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // as it is in a cleanup
		if text := said(ctx, func(t testing.TB) { Sees(t, time.Minute, "a second", counting) }); text != "" {
			t.Error(text)
		}
	})
}

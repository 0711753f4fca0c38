package credential

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// A clock that jumps over the end of the certificate's life is noticed soon: no timer is set for longer than a look at the clock.
func TestClockJumpsAhead(t *testing.T) {
	d, clock, cfg := setup(t)
	var jumped atomic.Bool
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cfg.Sleep = func(ctx context.Context, wait time.Duration) error {
		switch {
		case wait <= 0: // before the first certificate
			return nil
		case wait > clockEvery:
			t.Errorf("the clock is not looked at for %v", wait)
		}
		if !jumped.Swap(true) {
			clock.move(365 * 24 * time.Hour)
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	cred := New(cfg)
	cred.AskAs(d)
	changed := make(chan struct{}, 10)
	cred.OnChange(func() { changed <- struct{}{} })
	done := make(chan error, 1)
	go func() { done <- cred.Run(ctx) }()
	for range 2 { // the first, and the one after the jump
		select {
		case <-changed:
		case err := <-done:
			t.Fatal(err)
		}
	}
	cert, err := cred.Get()
	if err != nil || clock.Now().After(cert.Leaf.NotAfter) {
		t.Errorf("the certificate is one of before the jump: %v", err)
	}
	stop()
	<-done
}

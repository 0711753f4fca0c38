package wallclock

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/vm"
)

// The kernel tells of every step of its clock, and of no small one. The clock that is set is a guest's.
func TestWatch(t *testing.T) {
	if !vm.Run(t, vm.Config{}) {
		return
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ready, told, done := make(chan struct{}), make(chan time.Time), make(chan error, 1)
	go func() { done <- Watch(ctx, func() { close(ready) }, func() { told <- time.Now() }) }()
	<-ready
	for _, by := range []time.Duration{time.Hour, -3 * time.Hour, 30 * 365 * 24 * time.Hour, -time.Minute} {
		set := time.Now().Round(0).Add(by)
		tv := unix.NsecToTimeval(set.UnixNano())
		if err := unix.Settimeofday(&tv); err != nil {
			t.Fatal(err)
		}
		select {
		case at := <-told:
			if at.Round(0).Sub(set).Abs() > time.Minute/2 {
				t.Errorf("set to %v, told at %v", set, at)
			}
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

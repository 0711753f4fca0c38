package wallclock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Watch calls set whenever the wall clock was set, or the machine slept, until ctx ends; ready, once it would hear of it. The
// kernel tells (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET): nobody looks at the clock meanwhile.
func Watch(ctx context.Context, ready, set func()) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch the clock: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	defer context.AfterFunc(ctx, func() { timer.Close() })()
	defer timer.Close()
	never := unix.ItimerSpec{Value: unix.Timespec{Sec: math.MaxInt32}}
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil); err != nil {
		return fmt.Errorf("watch the clock: %w", err)
	}
	var last drift
	last.step(time.Now())
	ready()
	for buf := make([]byte, 8); ; {
		switch _, err := timer.Read(buf); {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, unix.ECANCELED):
			return fmt.Errorf("watch the clock: %w", err)
		}
		if last.step(time.Now()) {
			set()
		}
	}
}

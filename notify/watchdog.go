package notify

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Watched is the longest time that systemd bears without hearing of this process (WatchdogSec of its unit); 0: it does not listen.
func Watched() time.Duration {
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) ||
		pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// Watchdog tells systemd twice in each interval that the process lives, as long as well returns nil, until ctx ends. It returns at once
// where nobody wants to know. An error of well goes to ill; a service that stays silent is ended by systemd.
func Watchdog(ctx context.Context, well func(context.Context) error, ill func(error)) {
	half := Watched() / 2
	if half == 0 {
		return
	}
	tick := time.NewTicker(half)
	defer tick.Stop()
	for {
		short, cancel := context.WithTimeoutCause(ctx, half, fmt.Errorf("no answer within %v", half))
		err := well(short)
		cancel()
		if err == nil {
			err = Send(alive)
		}
		if err != nil && ctx.Err() == nil {
			ill(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

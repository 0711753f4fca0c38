package nft

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestFollow: what can't be read is a change too, and does not end the watch; a socket that can't be read is not asked without a pause.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changed, said, start := make(chan struct{}, 1), make(chan error), time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			follow(ctx, changed, func() error {
				select {
				case err := <-said:
					return err
				case <-ctx.Done():
					return unix.EBADF
				}
			})
		}()
		for _, tt := range []struct {
			err error
			at  time.Duration // since the start, when it is read
		}{{nil, 0}, {unix.ENOBUFS, 0}, {unix.ENOMEM, 0}, {unix.ENOMEM, afterError}, {nil, 2 * afterError}} {
			said <- tt.err
			if at := time.Since(start); at != tt.at {
				t.Errorf("%v was read after %v, want %v", tt.err, at, tt.at)
			}
			<-changed
		}
		cancel()
		<-done
	})
}

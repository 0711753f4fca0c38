package loadbalancer

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
)

// TestDeafEars: the kernel drops who is too slow, and then nothing is heard any more, which is said.
func TestDeafEars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ears{make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate), make(chan struct{})}
		go func() { // as the library: nothing more is said when nobody listens
			<-e.done
			e.addrs <- netlink.AddrUpdate{}
			close(e.addrs)
		}()
		changed := e.tell(t.Context())
		for _, say := range []func(){func() { e.links <- netlink.LinkUpdate{} }, func() { e.addrs <- netlink.AddrUpdate{} },
			func() { close(e.links) }} {
			say()
			synctest.Wait()
			if _, heard := <-changed; !heard {
				t.Error("a change is not told")
			}
		}
		if _, heard := <-changed; heard {
			t.Error("nobody listens, and nobody knows")
		}
	})
}

// TestListenAgain: an announcer listens again, after a pause, also when that can't be had at first.
func TestListenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, tries := make(chan struct{}), 0
		close(ended)
		whole := make(chan struct{})
		a := &announcer{cfg: Config{Log: slog.New(slog.DiscardHandler)}, heard: true, changed: ended,
			watch: func(context.Context) (<-chan struct{}, error) {
				if tries++; tries == 1 {
					return nil, errors.New("not now")
				}
				return whole, nil
			}}
		began := time.Now()
		for a.changed != (<-chan struct{})(whole) {
			<-a.changed
			a.listenAgain(t.Context())
		}
		if took := time.Since(began); took != 2*deafPause || tries != 2 || !a.heard {
			t.Errorf("%d tries in %s", tries, took)
		}
	})
}

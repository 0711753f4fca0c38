package node

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/systemd"
)

// A ShutdownGrace is the time that pods have to end when the machine shuts down: those of the priority and above, up to the next one.
type ShutdownGrace struct {
	Priority int32
	Grace    time.Duration
}

// logins are a machine's word of its shutdowns: logind's.
type logins interface {
	Allow(ctx context.Context, d time.Duration) error
	Hold(ctx context.Context) (io.Closer, error)
	Next(ctx context.Context) (down bool, err error)
	Close()
}

// connectLogind reaches the machine's logind.
func connectLogind(ctx context.Context) (logins, error) {
	l, err := systemd.Connect(ctx, systemd.Socket)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// shutdownAgain is the pause before logind is looked for again.
const shutdownAgain = 10 * time.Second

// shutdowns ends the node's pods, in the order of their priority, when the machine shuts down (graceful node shutdown, KEP-2000 and
// KEP-2712). The word of it is logind's, whose shutdown waits meanwhile; or the signal SIGPWR, for machines without logind.
type shutdowns struct {
	*common
	evict *evictor
	node  *nodeStatus
	lock  io.Closer // that holds the shutdown back; nil: nothing does
}

// run waits for shutdowns until ctx ends.
func (s *shutdowns) run(ctx context.Context) {
	power := s.cfg.power
	if power == nil {
		own := make(chan os.Signal, 1)
		signal.Notify(own, unix.SIGPWR)
		defer signal.Stop(own)
		power = own
	}
	words := make(chan bool)
	done := make(chan struct{})
	hold := make(chan io.Closer)
	go func() {
		defer close(done)
		s.listen(ctx, words, hold)
	}()
	defer func() { <-done }()
	defer s.release()
	for {
		select {
		case <-ctx.Done():
			return
		case lock := <-hold:
			s.release()
			s.lock = lock
		case <-power:
			s.begin(ctx)
		case down := <-words:
			if down {
				s.begin(ctx)
			} else {
				s.callOff(ctx)
			}
		}
	}
}

// listen passes on what logind says, with a new lock whenever there is to be one, and reaches it again when it is lost.
func (s *shutdowns) listen(ctx context.Context, words chan<- bool, hold chan<- io.Closer) {
	said := ""
	for {
		err := s.hear(ctx, words, hold)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said {
			said = text
			s.log.Warn("the machine's shutdown does not wait for pods to end; SIGPWR to kloop ends them", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(shutdownAgain):
		}
	}
}

// hear listens to one connection to logind, until it fails.
func (s *shutdowns) hear(ctx context.Context, words chan<- bool, hold chan<- io.Closer) error {
	l, err := s.cfg.logins(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	total := time.Duration(0)
	for _, g := range s.cfg.Shutdown {
		total += g.Grace
	}
	if err := l.Allow(ctx, total); err != nil {
		s.log.Warn("pods may have less time than configured when the machine shuts down", "err", err)
	}
	for down := false; ; {
		if !down {
			lock, err := l.Hold(ctx)
			if err != nil {
				return err
			}
			select {
			case hold <- lock:
			case <-ctx.Done():
				_ = lock.Close() // nobody holds anything back any more
				return ctx.Err()
			}
		}
		if down, err = l.Next(ctx); err != nil {
			return err
		}
		select {
		case words <- down:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin ends the pods, and then lets the machine go on with its shutdown.
func (s *shutdowns) begin(ctx context.Context) {
	defer s.release()
	if s.down.Swap(true) {
		return
	}
	s.log.Info("the machine shuts down: the pods end")
	s.nodeEvent(corev1.EventTypeNormal, "Shutdown", "Shutdown manager detected shutdown event")
	s.tell(ctx)
	for _, g := range shutdownGroups(s.cfg.Shutdown, s.pods()) {
		s.end(ctx, g)
	}
}

// callOff lets pods in again.
func (s *shutdowns) callOff(ctx context.Context) {
	s.down.Store(false)
	s.log.Info("the machine's shutdown was called off")
	s.nodeEvent(corev1.EventTypeNormal, "Shutdown", "Shutdown manager detected shutdown cancellation")
	s.tell(ctx)
}

func (s *shutdowns) tell(ctx context.Context) {
	if err := s.node.writeStatus(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("tell that the node shuts down", "err", err)
	}
}

func (s *shutdowns) release() {
	if s.lock != nil {
		_ = s.lock.Close() // what was held back goes on
		s.lock = nil
	}
}

// shutdownText is in the status of pods that ended because the machine did.
const shutdownText = "Pod was terminated in response to imminent node shutdown."

// end has the pods of a group end, and waits until they have, for no longer than their grace.
func (s *shutdowns) end(ctx context.Context, g shutdownGroup) {
	for _, p := range g.pods {
		grace := min(int64(g.Grace/time.Second), graceOf(p, nil))
		s.evict.put(p, &eviction{reason: "Terminated", message: shutdownText, grace: grace, disruption: shutdownText})
	}
	over := time.After(g.Grace)
	for len(g.pods) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-over:
			s.log.Warn("pods did not end within their grace of the shutdown", "priority", g.Priority, "pods", len(g.pods))
			return
		case <-time.After(200 * time.Millisecond):
		}
		now := s.pods()
		g.pods = slices.DeleteFunc(g.pods, func(p *corev1.Pod) bool {
			i := slices.IndexFunc(now, func(o *corev1.Pod) bool { return o.UID == p.UID })
			return i < 0 || core.Terminal(now[i])
		})
	}
}

// A shutdownGroup is pods that end together.
type shutdownGroup struct {
	ShutdownGrace
	pods []*corev1.Pod
}

// shutdownGroups sorts pods that run into groups, those that end first in front. Pods below the least priority end with it. It is pure.
func shutdownGroups(graces []ShutdownGrace, pods []*corev1.Pod) (list []shutdownGroup) {
	for _, g := range graces {
		list = append(list, shutdownGroup{ShutdownGrace: g})
	}
	coldsort.Func(list, func(a, b shutdownGroup) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, p := range pods {
		if core.Terminal(p) || len(list) == 0 {
			continue
		}
		at := 0
		for i := range list {
			if corev1helpers.PodPriority(p) >= list[i].Priority {
				at = i
			}
		}
		list[at].pods = append(list[at].pods, p)
	}
	return list
}

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/store/member"
)

// How often a server looks at what it stands on, and how much of its life a certificate has left when it is a gap: programs that exchange
// theirs have done so before, kubelets with a tenth left at the latest.
const (
	checkEvery = 5 * time.Second
	endingFor  = 30 * 24 * time.Hour
	endingPart = 10             // or such a part of its life, if that is shorter
	shortLived = 24 * time.Hour // certificates of clients that are made to end so soon are no gap
	certsEvery = time.Minute    // certificates are looked at: there may be thousands of clients
)

// A store is slow when a write takes so long in the mean of a minute with so many of them. Etcd's alerts call a disk
// critical then: elections are lost soon after.
const (
	slowWrite  = time.Second
	slowWrites = 10
	paceLooks  = int(time.Minute / checkEvery)
)

// A selfCheck looks at what the server stands on: the disk, the other members of the store, certificates.
type selfCheck struct {
	door   *frontDoor
	last   atomic.Pointer[convergence.Server] // nil: all is well
	silent map[uint64]time.Time               // members that did not answer at the last look, and since when
	paces  []written                          // of the store, at the looks of the last minute
	slow   time.Time                          // since when it is slow
	ending []convergence.Ending               // as of read
	read   time.Time
}

// A written counts the writes that a store has answered, and how long they took together.
type written struct {
	writes int64
	took   time.Duration
}

// run looks every five seconds until ctx ends.
func (s *selfCheck) run(ctx context.Context, ready func()) error {
	ready()
	every(ctx, checkEvery, func() { s.last.Store(s.look(ctx, time.Now())) })
	return nil
}

func (s *selfCheck) look(ctx context.Context, now time.Time) *convergence.Server {
	out := &convergence.Server{Name: self(s.door.c.cfg).ID(), Ending: s.ends(now)}
	if m := s.door.c.storage.etcd; m != nil {
		var since time.Time
		out.Refuses, since = m.Refuses()
		writes, took := m.Pace()
		if out.Slow = s.slowness(written{writes, took}, now); out.Slow != "" && out.Refuses == "" {
			since = s.slow
		}
		out.Since.Time = since
		out.Silent = s.hear(m.Silent(ctx), now)
	}
	if out.Refuses == "" && out.Slow == "" && len(out.Silent) == 0 && len(out.Ending) == 0 {
		return nil
	}
	return out
}

// slowness says how long a write takes, if those of the last minute took long.
func (s *selfCheck) slowness(p written, now time.Time) string {
	s.paces = append(s.paces, p)
	first := s.paces[0]
	s.paces = s.paces[max(0, len(s.paces)-paceLooks):]
	writes, took := p.writes-first.writes, p.took-first.took
	if writes < slowWrites || took/time.Duration(writes) < slowWrite {
		s.slow = time.Time{}
		return ""
	}
	if s.slow.IsZero() {
		s.slow = now
	}
	return fmt.Sprintf("%s for a write, the mean of %d", (took / time.Duration(writes)).Round(100*time.Millisecond), writes)
}

// hear notes which members are silent, and returns those that were so at the last look too: others may just start anew.
func (s *selfCheck) hear(now []member.Peer, at time.Time) (list []convergence.Silent) {
	was := s.silent
	s.silent = map[uint64]time.Time{}
	for _, p := range now {
		since, before := was[p.ID]
		if !before {
			since = at
		} else {
			list = append(list, convergence.Silent{Name: cmp.Or(p.Name, "without a name"), URL: p.URL, Since: convergence.WireTime{Time: since}})
		}
		s.silent[p.ID] = since
	}
	coldsort.Func(list, func(a, b convergence.Silent) int { return cmp.Compare(a.URL, b.URL) })
	return list
}

// ends are the certificates that should be others by now, as of the last minute.
func (s *selfCheck) ends(now time.Time) []convergence.Ending {
	if s.read.IsZero() || now.Sub(s.read) >= certsEvery || len(s.ending) > 0 { // a new one is seen at once
		s.ending, s.read = ending(s.certs(), now), now
	}
	return s.ending
}

// certs are the certificates of this server, and those that clients showed it lately.
func (s *selfCheck) certs() (list []Cert) {
	own := s.door.certs.ownCerts()
	for _, c := range own.Certificates {
		if strings.HasSuffix(c.What, stillBelieved) {
			continue // it is on its way out
		}
		if !strings.HasPrefix(c.What, "of ") {
			c.What = "of the " + c.What
		}
		list = append(list, c)
	}
	if s.door.c.storage.etcd != nil && !s.door.c.storage.etcd.Sole() {
		if data, err := os.ReadFile(s.door.c.storage.peerFiles().cert); err == nil {
			if certs, err := pki.ParseCerts(data); err == nil {
				list = append(list, Cert{"of its member of the store", certs[0].NotBefore, certs[0].NotAfter})
			}
		}
	}
	for _, c := range own.Clients {
		if c.Until.Sub(c.From) > shortLived && time.Since(c.Used) < lately {
			list = append(list, Cert{"of " + c.User, c.From, c.Until})
		}
	}
	return list
}

// ending are the certificates that should be others by now, the one that ends first before the rest.
func ending(list []Cert, now time.Time) (out []convergence.Ending) {
	for _, c := range list {
		due := c.Until.Add(-min(endingFor, c.Until.Sub(c.From)/endingPart))
		if now.After(due) {
			out = append(out, convergence.Ending{What: c.What, Since: convergence.WireTime{Time: due}, Until: convergence.WireTime{Time: c.Until}})
		}
	}
	coldsort.Func(out, func(a, b convergence.Ending) int {
		return cmp.Or(a.Until.Compare(b.Until.Time), cmp.Compare(a.What, b.What))
	})
	return out[:min(len(out), 16)]
}

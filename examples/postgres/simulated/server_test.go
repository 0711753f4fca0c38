package simulated

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
	"github.com/kloop-dev/kloop/examples/postgres/instance"
)

// A record is one commit: two of the same key on different timelines are two.
type record struct{ timeline, key int64 }

// A disk is a volume with its data. It outlives processes and pods.
type disk struct {
	data, signal, clean bool
	timeline            int64
	log                 []record
}

// A site is all machines: disks by instance, and the PostgreSQLs that run.
type site struct {
	mu    sync.Mutex
	disks map[string]*disk
	procs map[string]*server // by address
	next  int64
	acked map[int64]bool
}

func newSite() *site {
	return &site{disks: map[string]*disk{}, procs: map[string]*server{}, acked: map[int64]bool{}}
}

// A server stands for PostgreSQL: it replicates, waits for its quorum, diverges and is rewound, all at once.
type server struct {
	site       *site
	name, addr string
	running    bool
	recovering bool
	upstream   string
	quorum     *v1alpha1.Quorum
	cut        bool // nobody reaches it, and it reaches nobody
}

func (s *server) disk() *disk {
	d := s.site.disks[s.name]
	if d == nil {
		d = &disk{}
		s.site.disks[s.name] = d
	}
	return d
}

// primary finds the server at an address that takes writes; nil if there is none.
func (s *server) primary(addr string) *server {
	p := s.site.procs[addr]
	if p == nil || !p.running || p.recovering || p.cut || s.cut {
		return nil
	}
	return p
}

// receive copies what the upstream has, and says whether that is possible: what is here must be the beginning of it.
func (s *server) receive() bool {
	p := s.primary(s.upstream)
	if !s.running || !s.recovering || p == nil {
		return false
	}
	mine, theirs := s.disk(), p.disk()
	if len(mine.log) > len(theirs.log) || !slices.Equal(mine.log, theirs.log[:len(mine.log)]) {
		return false
	}
	mine.log, mine.timeline = slices.Clone(theirs.log), theirs.timeline
	return true
}

// streaming lists the standbys of a primary that have all it has.
func (s *server) streaming() (list []string) {
	for _, p := range s.site.procs {
		if p.upstream == s.addr && p.receive() {
			list = append(list, p.name)
		}
	}
	slices.Sort(list)
	return list
}

// write commits a new key at a primary, and says whether it was acknowledged.
func (s *server) write() bool {
	if !s.running || s.recovering {
		return false
	}
	d := s.disk()
	s.site.next++
	d.log = append(d.log, record{d.timeline, s.site.next})
	confirmed := 0
	streaming := s.streaming()
	if q := s.quorum; q != nil {
		for _, m := range q.Members {
			if m != s.name && slices.Contains(streaming, m) {
				confirmed++
			}
		}
		if confirmed < q.Number && len(q.Members) > 1 {
			return false
		}
	}
	s.site.acked[s.site.next] = true
	return true
}

// writeAll writes at every primary there is, as clients of all sides do, and says whether one acknowledged.
func (s *site) writeAll() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if p.running && !p.recovering {
			ok = p.write() || ok
		}
	}
	return ok
}

// lost counts what was acknowledged and is not at the primary; -1: there is no primary, or there are several.
func (s *site) lost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var leader *server
	for _, p := range s.procs {
		if p.running && !p.recovering {
			if leader != nil {
				return -1
			}
			leader = p
		}
	}
	if leader == nil {
		return -1
	}
	there := map[int64]bool{}
	for _, r := range leader.disk().log {
		there[r.key] = true
	}
	n := 0
	for key := range s.acked {
		if !there[key] {
			n++
		}
	}
	return n
}

func (s *server) Version() string { return "15.20" }

func (s *server) Observe(context.Context) (instance.Local, error) {
	s.site.mu.Lock()
	defer s.site.mu.Unlock()
	receiving := s.receive()
	d := s.disk()
	l := instance.Local{Data: d.data, Running: s.running, InRecover: s.running && s.recovering, Signal: d.signal, Timeline: d.timeline,
		LSN: uint64(len(d.log)) + 1, Upstream: s.upstream, Receiving: receiving, AtEnd: s.running && s.recovering, Clean: d.clean && !s.running}
	if d.data {
		l.SystemID = "7"
	}
	if l.Running && !l.InRecover {
		l.Streaming, l.Upstream = s.streaming(), ""
	}
	return l, nil
}

// locked runs something that changes the site.
func (s *server) locked(do func(d *disk) error) error {
	s.site.mu.Lock()
	defer s.site.mu.Unlock()
	return do(s.disk())
}

var errUnreachable = errors.New("there is no primary at that address")

func (s *server) Init(context.Context, *v1alpha1.PostgresCluster) error {
	return s.locked(func(d *disk) error { *d = disk{data: true, clean: true, timeline: 1}; return nil })
}

func (s *server) StartPrimary(context.Context) error {
	return s.locked(func(d *disk) error { s.running, s.recovering, s.upstream, d.clean = true, false, "", false; return nil })
}

func (s *server) StartStandby(_ context.Context, upstream string) error {
	return s.locked(func(d *disk) error {
		s.running, s.recovering, s.upstream, d.signal, d.clean = true, true, upstream, true, false
		return nil
	})
}

func (s *server) Promote(context.Context) error {
	return s.locked(func(d *disk) error {
		s.recovering, s.upstream, d.signal = false, "", false
		d.timeline++
		return nil
	})
}

func (s *server) Stop(context.Context) error {
	return s.locked(func(d *disk) error {
		if s.running && !s.recovering {
			s.streaming() // the standbys get the rest
			d.clean = true
		}
		s.running = false
		return nil
	})
}

func (s *server) Follow(_ context.Context, upstream string) error {
	return s.locked(func(*disk) error { s.upstream = upstream; return nil })
}

func (s *server) Rewind(_ context.Context, upstream string) error {
	return s.locked(func(d *disk) error {
		p := s.primary(upstream)
		if p == nil {
			return errUnreachable
		}
		s.running, d.signal, d.clean = false, true, false
		n := 0
		for n < len(d.log) && n < len(p.disk().log) && d.log[n] == p.disk().log[n] {
			n++
		}
		d.log = d.log[:n]
		return nil
	})
}

func (s *server) Clone(_ context.Context, upstream string) error {
	return s.locked(func(d *disk) error {
		p := s.primary(upstream)
		if p == nil {
			return errUnreachable
		}
		s.running = false
		*d = disk{data: true, signal: true, timeline: p.disk().timeline, log: slices.Clone(p.disk().log)}
		return nil
	})
}

func (s *server) Tend(context.Context, []string) error { return nil }

func (s *server) Configure(_ context.Context, c *v1alpha1.PostgresCluster) (settled bool, err error) {
	return true, s.locked(func(*disk) error { s.quorum = c.Status.Quorum.DeepCopy(); return nil })
}

func (s *server) Kill(string) {
	_ = s.locked(func(d *disk) error { s.running, d.clean = false, false; return nil })
}

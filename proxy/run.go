package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/nft"
	"github.com/kloop-dev/kloop/resource"
)

// loop is the running proxy. One goroutine owns it.
type loop struct {
	cfg     Config
	conn    *nft.Conn
	touched <-chan struct{} // somebody's transaction, ours too
	book    *book
	kernels [2]*kernel

	generation uint32    // of the filter after our last transaction
	unsure     bool      // the kernel may hold something else than we think
	rest       time.Time // not before is it listed again
	changed    change    // what is not in the kernel yet
	health     *healthPorts
	prepared   string // ranges for which the machine is prepared
	tuned      bool   // the kernel's memory of connections is as it should be

	mode mode
	read resource.Reader // the newest
	tell chan corev1.NodeCondition
}

func newLoop(ctx context.Context, cfg Config) (*loop, error) {
	conn, err := nft.Open()
	if err != nil {
		return nil, err
	}
	touched, err := nft.Watch(ctx)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &loop{cfg: cfg, conn: conn, touched: touched, unsure: true, changed: change{}, health: newHealthPorts(cfg.Events),
		kernels: newKernels(false)}, nil
}

func (l *loop) close() {
	l.mode.close()
	l.health.close()
	l.conn.Close()
}

// run waits for changes of the cluster and of the kernel, and acts on all there are.
func (l *loop) run(ctx context.Context, ready func()) error {
	batches := make(chan client.Batch)
	go client.Follow(ctx, l.cfg.Client.Feed(kinds.Services, kinds.EndpointSlices, kinds.ServiceCIDRs, kinds.Nodes), batches)
	l.tell = startTeller(ctx, &l.cfg)
	ticks := make(<-chan time.Time)
	if l.cfg.Mode == ModeIPVS {
		t := time.NewTicker(tend)
		defer t.Stop()
		ticks = t.C
	}
	var again <-chan time.Time
	for first := true; ctx.Err() == nil; {
		if !l.await(ctx, batches, ticks, again) {
			continue
		}
		again = nil
		wait, err := l.act()
		l.health.rules.Store(err == nil)
		problem := l.health.follow(l.book)
		if problem != nil {
			l.cfg.Log.Error("serve health checks", "again", retry, "err", problem)
		}
		if err != nil && first {
			return fmt.Errorf("program the services: %w", err)
		}
		if err != nil {
			l.cfg.Log.Error("program the services", "again", retry, "err", err)
			l.unsure = true
		}
		if d := pause(wait, err, problem); d > 0 {
			again = time.After(d)
		}
		if first { // even if the kernel has to be listed once more: it holds all that the book wants
			first = false
			ready()
		}
	}
	return nil
}

// pause is the time until the next pass although nothing happens; 0: there need be none. The kernel asks for wait.
func pause(wait time.Duration, failed, health error) time.Duration {
	switch {
	case failed != nil:
		return retry
	case wait > 0:
		return wait
	case health != nil:
		return retry
	}
	return 0
}

// await waits until something happens, or ctx ends, and says whether there is something to program.
func (l *loop) await(ctx context.Context, batches <-chan client.Batch, ticks, again <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case b := <-batches:
		if !l.learn(b) {
			return false
		}
		l.gather(ctx, batches)
	case <-l.touched:
		return l.book != nil && l.disturbed()
	case <-ticks:
		return l.book != nil && l.tend()
	case <-again:
	}
	return true
}

// gather takes in what else changes within a moment.
func (l *loop) gather(ctx context.Context, batches <-chan client.Batch) {
	late := time.NewTimer(settle)
	defer late.Stop()
	for {
		select {
		case b := <-batches:
			l.learn(b)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// learn plans what a batch changes, and says whether that is anything.
func (l *loop) learn(b client.Batch) bool {
	l.read = b.Read
	if b.Reset || l.book == nil {
		l.replan(b.Read)
		return true
	}
	dirty, elsewhere := map[key]bool{}, false
	for _, c := range b.Changes {
		for _, obj := range []resource.Object{c.Old, c.New} {
			if obj == nil {
				continue
			}
			switch o := obj.(type) {
			case *corev1.Service:
				dirty[key{Namespace: o.Namespace, Name: o.Name}] = true
			case *discoveryv1.EndpointSlice:
				if name := o.Labels[discoveryv1.LabelServiceName]; name != "" {
					dirty[key{Namespace: o.Namespace, Name: name}] = true
				}
			case *corev1.Node:
				elsewhere = elsewhere || o.Name == l.cfg.Node || l.cfg.ipvs
			default:
				elsewhere = true
			}
		}
	}
	if elsewhere && !newHere(&l.cfg, b.Read, interfaces(l.cfg)).equal(l.book.here) {
		l.replan(b.Read)
		return true
	}
	names := make([]key, 0, len(dirty))
	for n := range dirty {
		names = append(names, n)
	}
	d := l.book.update(b.Read, names...)
	l.changed.merge(d)
	return len(d) > 0 || len(names) > 0 && len(l.book.checked) > 0
}

// replan computes everything from one snapshot.
func (l *loop) replan(read resource.Reader) {
	l.read = read
	l.decide()
	was := l.book
	l.book = newBook(newHere(&l.cfg, read, interfaces(l.cfg)))
	l.book.fill(read)
	if was != nil {
		l.book.past = was.past
		for _, s := range was.services {
			l.book.past.add(s)
		}
	}
	l.unsure, l.rest, l.changed = true, time.Time{}, change{}
	if l.mode.director != nil {
		l.mode.director.sure = false
	}
}

// decide goes over to the mode that is asked for when the kernel can do it. The book is to be made anew then.
func (l *loop) decide() bool {
	was := l.mode.problem
	changed := l.mode.choose(&l.cfg, l.cfg.Log)
	if changed {
		l.cfg.ipvs, l.kernels = true, newKernels(true)
		l.health.ipvs.Store(true)
	}
	if l.tell != nil && (changed || l.mode.problem != was) {
		select {
		case <-l.tell: // what it has not looked at yet is old
		default:
		}
		l.tell <- l.mode.condition(&l.cfg)
	}
	return changed
}

// tend looks after mode ipvs, and says whether there is something to program.
func (l *loop) tend() bool {
	d := l.mode.director
	switch {
	case d == nil && l.decide():
		l.replan(l.read)
		return true
	case d == nil:
		return false
	case d.due() || !d.sure:
		d.sure = false
		return true
	}
	if err := d.drain(l.book); err != nil {
		l.cfg.Log.Warn("take away endpoints whose connections are over", "err", err)
		d.sure = false
		return true
	}
	return false
}

// merge adds a later change: what was before stays what was before.
func (c change) merge(later change) {
	for e, d := range later {
		if was := c[e]; was != nil {
			d = &[2]*string{was[0], d[1]}
		}
		c[e] = d
	}
}

// disturbed says whether somebody else changed the packet filter since our last transaction.
func (l *loop) disturbed() bool {
	gen, err := l.conn.Generation()
	if err == nil && gen == l.generation {
		return false
	}
	l.unsure = true
	return true
}

// share bounds what others cost us who change the packet filter all the time: one part in so many of a processor goes into listing
// our table again.
const share = 20

// act brings the kernel to what the book wants. wait > 0: there is more to do, after that time.
func (l *loop) act() (wait time.Duration, err error) {
	if err := l.prepare(); err != nil {
		return 0, err
	}
	mend, err := l.mustMend()
	if err != nil {
		return 0, err
	}
	if err := l.mode.raise(l.book); err != nil {
		return 0, err
	}
	later := l.unsure && !mend // somebody keeps changing the filter: what is new goes in on top, the list comes later
	began := time.Now()
	if err = l.program(mend); err != nil && !mend {
		l.cfg.Log.Info("the kernel's rules are not what they were: mending them", "err", err)
		mend, later = true, false
		err = l.program(mend)
	}
	if err != nil {
		return 0, err
	}
	if err := l.mode.lower(l.book); err != nil {
		return 0, err
	}
	l.mode.sweep(&l.cfg, l.cfg.Log)
	if !l.tuned { // now that the rules have loaded what they need
		tuneConntrack(l.cfg.Log)
		l.tuned = true
	}
	took := time.Since(began)
	l.cfg.Log.Debug("services programmed", "services", len(l.book.services), "elements", len(l.changed), "mended", mend, "took", took)
	l.changed = change{}
	if l.book.udp {
		// A courtesy, on top of right rules: flows also end by themselves.
		if err := (flows{l.book}).clear(); err != nil {
			l.cfg.Log.Warn("forget UDP flows to endpoints that are gone", "err", err)
		}
		l.book.udp, l.book.past = false, past{}
	}
	if mend {
		l.rest = time.Now().Add(share * took)
	}
	if l.unsure = l.unsure || later; l.unsure {
		wait = max(time.Until(l.rest), time.Millisecond)
	}
	return wait, nil
}

// mustMend says whether the tables are to be listed now: somebody else changed the filter, and we did not list them a moment ago, or
// one is gone, as after a flush of everything.
func (l *loop) mustMend() (bool, error) {
	if !l.unsure && !l.disturbed() {
		return false, nil
	}
	if !time.Now().Before(l.rest) {
		return true, nil
	}
	for _, k := range l.kernels {
		if k.exists {
			if there, err := l.conn.Exists(k.layout.table()); err != nil || !there {
				return true, err
			}
		}
	}
	return false, nil
}

// program makes the transactions of both families. If somebody else's came between them it stays unsure.
func (l *loop) program(mend bool) error {
	before, err := l.conn.Generation()
	if err != nil {
		return err
	}
	transactions := uint32(0)
	for i, k := range l.kernels {
		next, n, err := l.bring(k, mend)
		if err != nil {
			return err
		}
		l.kernels[i], transactions = next, transactions+n
	}
	if l.generation, err = l.conn.Generation(); err != nil {
		return err
	}
	l.unsure = l.generation != before+transactions
	return nil
}

// bring makes one family's transaction and returns what the kernel then holds, and how many transactions it took.
func (l *loop) bring(k *kernel, mend bool) (next *kernel, transactions uint32, err error) {
	if !mend && !k.exists {
		if !k.wanted(l.book) {
			return k, 0, nil
		}
		mend = true
	}
	if k.weeds() {
		// They do no harm; the next change tries again.
		swept, err := k.sweep(l.conn)
		if err != nil {
			l.cfg.Log.Debug("stale chains stay for now", "err", err)
		} else if swept {
			transactions++
		}
	}
	var batches []*nft.Batch
	if mend {
		batches, next, err = k.repair(l.conn, l.book)
	} else {
		batches, next = k.follow(l.book, l.changed)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, b := range batches {
		if b.Empty() {
			continue
		}
		if err := l.conn.Commit(b); err != nil {
			return nil, 0, err
		}
		transactions++
	}
	return next, transactions, nil
}

// interfaces lists the machine's addresses if the configuration asks for more than the node's own. Those of services are none.
func interfaces(cfg Config) (list []netip.Addr) {
	asked := cfg.ipvs || slices.ContainsFunc(cfg.NodePortAddresses, func(w string) bool { return w != Primary })
	if !asked {
		return nil
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, link := range links {
		if link.Name == dummyName {
			continue
		}
		found, _ := link.Addrs() // an interface that just went has none
		for _, a := range found {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				list = append(list, p.Addr().Unmap())
			}
		}
	}
	return list
}

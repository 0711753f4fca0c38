package loadbalancer

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// Config says which node answers, or speaks.
type Config struct {
	Client    client.Client // reads and updates the Leases in wellknown.AnnounceSpace
	Node      string
	Address   netip.Addr   // of the node, for heartbeats
	Addresses []netip.Addr // of the node, for routes: at most one of each family; none: Address
	Log       *slog.Logger
}

const (
	apiPatience = 2 * time.Second // for one write
	apiPause    = 500 * time.Millisecond
	openPause   = 5 * time.Second
	atOnce      = 16 // writes under way
)

// An announcer is the running loop. One goroutine owns it.
type announcer struct {
	cfg     Config
	duties  map[string]*duty // by the Lease's name
	links   []link
	r       *responder // nil while there is no duty
	conn    *net.UDPConn
	deaf    chan struct{} // closed with conn
	reopen  time.Time
	changed <-chan struct{} // the kernel's interfaces or addresses; closed when nobody tells of them
	heard   bool            // somebody does
	watch   func(context.Context) (<-chan struct{}, error)
	words   chan word
	results chan result
	writing int

	stepped, beaten time.Time
}

// A result tells what became of a write, or a read, of a Lease.
type result struct {
	name  string
	lease *coordinationv1.Lease // as it is now; nil: not known
	err   error
	what  string
}

// Announce answers ARP and NDP for the addresses whose Leases this node holds, until ctx ends: then it lets go of them. It does
// nothing, and opens nothing, while there is no such Lease.
func Announce(ctx context.Context, cfg Config) error {
	changed, err := watchLinks(ctx)
	if err != nil {
		return err
	}
	a := &announcer{cfg: cfg, duties: map[string]*duty{}, changed: changed, heard: true, watch: watchLinks,
		words: make(chan word, 64), results: make(chan result, atOnce)}
	batches := make(chan client.Batch)
	go client.Follow(ctx, cfg.Client.Feed(kinds.Leases), batches)
	defer a.close()
	for {
		var late <-chan time.Time
		if due := a.step(ctx, time.Now()); !due.IsZero() {
			late = time.After(max(time.Until(due), time.Millisecond))
		}
		var rivals chan rival
		if a.r != nil {
			rivals = a.r.rivals
		}
		select {
		case <-ctx.Done():
			a.leave()
			return nil
		case b := <-batches:
			a.learn(b, time.Now())
		case w := <-a.words:
			a.listen(w, time.Now())
		case v := <-rivals:
			a.meet(v, time.Now())
		case res := <-a.results:
			a.settle(res, time.Now())
		case _, heard := <-a.changed:
			if !heard {
				a.listenAgain(ctx)
			}
			a.relink(time.Now())
		case <-late:
		}
	}
}

// learn takes in what changed of the Leases.
func (a *announcer) learn(b client.Batch, now time.Time) {
	if b.Reset {
		there := map[string]bool{}
		for obj := range b.Read.ByLabel(kinds.Leases, wellknown.AnnounceSpace, wellknown.AnnounceLabel, "layer2") {
			there[obj.GetName()] = true
			a.know(resource.As[*coordinationv1.Lease](obj), now)
		}
		for name := range a.duties {
			if !there[name] {
				a.forget(name)
			}
		}
		return
	}
	for _, c := range b.Changes {
		o := c.Object()
		switch {
		case o.GetNamespace() != wellknown.AnnounceSpace || o.GetLabels()[wellknown.AnnounceLabel] != "layer2":
		case c.New == nil:
			a.forget(o.GetName())
		default:
			a.know(resource.As[*coordinationv1.Lease](o), now)
		}
	}
}

// know takes in one Lease. What this node has no part in is forgotten.
func (a *announcer) know(l *coordinationv1.Lease, now time.Time) {
	d := a.duties[l.Name]
	if d == nil {
		addr, err := netip.ParseAddr(l.Annotations[wellknown.AnnouncedAddress])
		if err != nil {
			return
		}
		d = &duty{addr: addr}
	}
	d.learn(l, now)
	if d.holder != a.cfg.Node && index(d.candidates, a.cfg.Node) < 0 {
		a.forget(l.Name)
		return
	}
	if a.duties[l.Name] = d; a.links == nil {
		a.relink(now)
	}
}

func (a *announcer) forget(name string) {
	if d := a.duties[name]; d != nil {
		delete(a.duties, name)
		if d.phase != quiet {
			a.publish()
		}
	}
}

// step does all there is to do now, and returns when there is more; the zero time: when something changes.
func (a *announcer) step(ctx context.Context, now time.Time) (due time.Time) {
	if len(a.duties) == 0 {
		a.close()
		return due
	}
	a.openEars(now)
	soonest := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	still := now.Sub(a.stepped) > frozen
	for name, d := range a.duties {
		if still && d.phase != quiet {
			d.doubt = true
		}
		for range 6 { // the longest chain of moves at once is shorter
			m, at := d.decide(a.cfg.Node, now)
			if m == nothing {
				soonest(at)
				break
			}
			a.do(ctx, name, d, m, now)
		}
	}
	a.stepped = now
	if a.r != nil {
		a.r.alive()
	}
	if a.conn == nil {
		soonest(a.reopen)
	}
	if a.holds() {
		if !now.Before(a.beaten.Add(beatEvery)) {
			a.beaten = now
			a.say()
		}
		soonest(a.beaten.Add(beatEvery))
	}
	return due
}

// holds says that this node answers, or is about to.
func (a *announcer) holds() bool {
	for _, d := range a.duties {
		if d.phase != quiet {
			return true
		}
	}
	return false
}

// say sends a heartbeat to everybody who would have to take over.
func (a *announcer) say() {
	sent := map[string]bool{}
	for _, d := range a.duties {
		if d.phase == quiet {
			continue
		}
		for _, c := range d.candidates {
			if c.Node != a.cfg.Node && !sent[c.Address] {
				sent[c.Address] = true
				a.tell(c.Address, word{node: a.cfg.Node})
			}
		}
	}
}

func (a *announcer) tell(address string, w word) {
	ip, err := netip.ParseAddr(address)
	if err != nil || a.conn == nil {
		return
	}
	_, _ = a.conn.WriteToUDPAddrPort(w.bytes(), netip.AddrPortFrom(ip, beatPort)) // who is not there hears nothing
}

// listen takes in what another node says.
func (a *announcer) listen(w word, now time.Time) {
	for _, d := range a.duties {
		i := index(d.candidates, w.node)
		if i < 0 || d.candidates[i].Address != w.from.String() {
			continue
		}
		switch {
		case w.yield && d.addr == w.addr && w.rev > d.rev:
			d.yielded = max(d.yielded, w.rev)
		case !w.yield && d.holder == w.node:
			d.heard = now
		}
	}
}

// meet notes that somebody else answers. Before we do we wait until he stops; after that we say once more that the address is here.
func (a *announcer) meet(v rival, now time.Time) {
	for _, d := range a.duties {
		if d.addr != v.addr || d.phase == quiet {
			continue
		}
		if d.rival != v.mac {
			a.cfg.Log.Warn("another machine answers for the address of a load balancer", "address", v.addr, "mac", v.mac)
		}
		d.rival, d.trouble = v.mac, "the machine "+v.mac+" answers for the address too"
		if d.phase == probing {
			d.asked, d.next = 0, now.Add(conflicted)
		} else if d.told >= tellTimes && now.After(d.next.Add(openPause)) {
			d.told, d.next = tellTimes-1, now
		}
	}
}

// relink reads the interfaces again.
func (a *announcer) relink(now time.Time) {
	if len(a.duties) == 0 {
		a.links = nil
		return
	}
	list, err := observeLinks()
	if err != nil {
		a.cfg.Log.Warn("read the network interfaces", "err", err)
		return
	}
	before := a.links
	a.links = list
	for _, d := range a.duties {
		switch same := sameLinks(a.choose(before, d), a.choose(list, d)); {
		case same:
		case d.phase == answering: // from there it must be told anew, or let go
			d.told, d.next = 0, now
		case d.phase == quiet:
			d.retry = time.Time{} // what was in the way may be gone
		}
	}
	a.publish()
}

func sameLinks(a, b []link) bool {
	return slices.EqualFunc(a, b, func(x, y link) bool { return x.index == y.index && x.mac.String() == y.mac.String() })
}

func (a *announcer) choose(list []link, d *duty) []link {
	chosen, _ := choose(list, d.addr, d.interfaces(a.cfg.Node))
	return chosen
}

// publish hands the responder what is answered, from now on.
func (a *announcer) publish() {
	if a.r == nil {
		return
	}
	t := &table{answers: map[netip.Addr][]link{}, watched: map[netip.Addr]bool{}, own: map[string]bool{}}
	joined := map[membership]bool{}
	for _, l := range a.links {
		t.own[string(l.mac)] = true
	}
	for _, d := range a.duties {
		if d.phase == quiet {
			continue
		}
		t.watched[d.addr] = true
		chosen := a.choose(a.links, d)
		if d.phase == answering {
			t.answers[d.addr] = chosen
		}
		for _, l := range chosen {
			if d.addr.Is6() {
				joined[membership{solicited(d.addr), l.index}] = true
			}
		}
	}
	a.r.table.Store(t)
	if a.r.groups != nil {
		if err := a.r.groups.set(joined); err != nil {
			a.cfg.Log.Warn("hear what is asked of IPv6 addresses", "err", err)
		}
	}
}

package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"net"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// do makes a move. Afterwards decide has something else to say.
func (a *announcer) do(ctx context.Context, name string, d *duty, m move, now time.Time) {
	switch m {
	case hush:
		a.hush(d)
	case take:
		if _, why := a.able(d); why != "" {
			d.retry = now.Add(openPause)
			a.note(ctx, name, d, now, a.cfg.Node+" can't answer: "+why)
			return
		}
		a.write(ctx, name, d, now, "take the address", func(l *coordinationv1.Lease) { hold(l, a.cfg.Node) })
	case letGo:
		a.hush(d)
		a.write(ctx, name, d, now, "let go of the address", func(l *coordinationv1.Lease) { hold(l, "") })
	case confirm:
		a.read(ctx, name, d, now)
	case ask:
		links, why := a.able(d)
		if why != "" {
			a.pass(ctx, name, d, now, why)
			return
		}
		d.phase, d.asked, d.next = probing, d.asked+1, now.Add(probeEvery)
		a.publish()
		a.tell(d.previous, word{yield: true, node: a.cfg.Node, addr: d.addr, rev: d.rev})
		a.r.probe(d.addr, links)
	case answer:
		d.phase, d.told, d.next, d.rival, d.trouble = answering, 0, now, "", ""
		a.publish()
		a.cfg.Log.Info("answering for the address of a load balancer", "address", d.addr, "services",
			d.lease.Annotations[wellknown.AnnouncedServices])
	case announce:
		links, why := a.able(d)
		if why != "" {
			a.pass(ctx, name, d, now, why)
			return
		}
		d.told, d.next = d.told+1, now.Add(tellAgain)
		a.r.announce(d.addr, links)
		if d.told == tellTimes { // a write delays what comes next
			d.foreign = foreign(links, d.addr)
		}
	case nothing:
	}
	if d.phase == answering && !now.Before(d.retry) {
		a.note(ctx, name, d, now, d.trouble)
	}
}

// pass lets go of an address that can't be answered from here: perhaps another node can.
func (a *announcer) pass(ctx context.Context, name string, d *duty, now time.Time, why string) {
	a.hush(d)
	a.write(ctx, name, d, now, "let go of the address", func(l *coordinationv1.Lease) {
		hold(l, "")
		l.Annotations[wellknown.AnnouncedTrouble] = a.cfg.Node + " can't answer: " + why
	})
	d.retry = now.Add(openPause)
}

// hush stops answering, at once.
func (a *announcer) hush(d *duty) {
	if d.phase == answering {
		a.cfg.Log.Info("no longer answering for the address of a load balancer", "address", d.addr)
	}
	d.phase, d.asked, d.told = quiet, 0, 0
	a.publish()
}

// able are the interfaces on which the address can be answered; or why it can't be.
func (a *announcer) able(d *duty) ([]link, string) {
	if err := a.open(); err != nil {
		return nil, err.Error()
	}
	if d.addr.Is6() && a.r.ndp == nil {
		return nil, "the kernel has no IPv6"
	}
	return choose(a.links, d.addr, d.interfaces(a.cfg.Node))
}

// open opens what is needed to answer.
func (a *announcer) open() error {
	if a.r != nil {
		return nil
	}
	r, err := newResponder()
	if err != nil {
		return err
	}
	a.r = r
	r.alive()
	go r.serveARP()
	if r.ndp != nil {
		go r.serveNDP()
	}
	a.publish()
	return nil
}

// openEars opens what is needed to hear other nodes, and to be heard. Without it a node answers all the same, but nobody notices
// quickly that one is lost.
func (a *announcer) openEars(now time.Time) {
	if a.conn == nil && !now.Before(a.reopen) {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addrPort(a.cfg.Address)))
		if err != nil {
			a.reopen = now.Add(openPause)
			a.cfg.Log.Warn("listen for the heartbeats of other nodes", "again", openPause, "err", err)
			return
		}
		a.conn = c
		a.words, a.deaf = make(chan word, 64), make(chan struct{})
		go hear(c, a.words, a.deaf)
	}
}

// close gives up what was opened.
func (a *announcer) close() {
	if a.r != nil {
		a.r.close()
		a.r = nil
	}
	if a.conn != nil {
		close(a.deaf)
		a.conn.Close()
		a.conn = nil
	}
}

// hold writes a holder into a Lease; "": nobody.
func hold(l *coordinationv1.Lease, node string) {
	now, turns := metav1.NowMicro(), int32(1)
	if l.Spec.LeaseTransitions != nil {
		turns += *l.Spec.LeaseTransitions
	}
	l.Spec.HolderIdentity = &node
	if node != "" {
		l.Spec.AcquireTime, l.Spec.RenewTime, l.Spec.LeaseTransitions = &now, &now, &turns
	}
	delete(l.Annotations, wellknown.AnnouncedTrouble)
	delete(l.Annotations, wellknown.AnnouncedForeign)
}

// note writes into the Lease what keeps the address from being answered, "" for nothing, and that it is foreign to this node.
func (a *announcer) note(ctx context.Context, name string, d *duty, now time.Time, trouble string) {
	notes := map[string]string{wellknown.AnnouncedTrouble: trouble, wellknown.AnnouncedForeign: d.foreign}
	told := true
	for key, text := range notes {
		told = told && d.lease.Annotations[key] == text
	}
	if told || d.busy {
		return
	}
	a.write(ctx, name, d, now, "note what is wrong", func(l *coordinationv1.Lease) {
		maps.Copy(l.Annotations, notes)
		maps.DeleteFunc(l.Annotations, func(_, text string) bool { return text == "" })
	})
	d.retry = now.Add(openPause)
}

// write changes the Lease if nobody else changed it since it was read. The loop goes on meanwhile.
func (a *announcer) write(ctx context.Context, name string, d *duty, now time.Time, what string, change func(*coordinationv1.Lease)) {
	next := resource.Clone(d.lease)
	change(next)
	a.call(ctx, name, d, now, what, func(ctx context.Context) (resource.Object, error) {
		return a.cfg.Client.Update(ctx, kinds.Leases, next, "")
	})
}

func (a *announcer) read(ctx context.Context, name string, d *duty, now time.Time) {
	a.call(ctx, name, d, now, "confirm the address", func(ctx context.Context) (resource.Object, error) {
		return a.cfg.Client.Get(ctx, kinds.Leases, wellknown.AnnounceSpace, name)
	})
}

func (a *announcer) call(ctx context.Context, name string, d *duty, now time.Time, what string,
	f func(context.Context) (resource.Object, error)) {
	if a.writing == atOnce {
		d.retry = now.Add(beatEvery / 2)
		return
	}
	a.writing++
	d.busy = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, apiPatience)
		defer cancel()
		obj, err := f(ctx)
		res := result{name: name, err: err, what: what}
		if err == nil {
			res.lease = resource.As[*coordinationv1.Lease](obj)
		}
		a.results <- res // it has room for all that are under way
	}()
}

// settle takes in what became of a call. A conflict means that the Lease changed, which the feed shows.
func (a *announcer) settle(res result, now time.Time) {
	a.writing--
	d := a.duties[res.name]
	if d == nil {
		return
	}
	d.busy = false
	if res.err != nil {
		d.retry = now.Add(apiPause)
		a.cfg.Log.Debug("agree with other nodes on an address", "address", d.addr, "what", res.what, "again", apiPause, "err", res.err)
		return
	}
	a.know(res.lease, now)
	if res.what == "confirm the address" {
		d.doubt = false
		if resource.Revision(res.lease) >= d.yielded {
			d.yielded = 0
		} else {
			d.retry = now.Add(apiPause)
		}
	}
}

// leave lets go of all addresses, so that others take over at once.
func (a *announcer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), apiPatience)
	defer cancel()
	for name, d := range a.duties {
		if d.holder != a.cfg.Node {
			continue
		}
		a.hush(d)
		if err := a.free(ctx, name, d.lease); err != nil {
			a.cfg.Log.Warn(fmt.Sprintf("let go of the address %s", d.addr), "object", "lease/"+name, "err", err)
		}
	}
}

// free takes this node out of a Lease, also when others, such as the one that writes the candidates, have changed it since it was seen.
func (a *announcer) free(ctx context.Context, name string, l *coordinationv1.Lease) (err error) {
	for range lastWords {
		next := resource.Clone(l)
		hold(next, "")
		if _, err = a.cfg.Client.Update(ctx, kinds.Leases, next, ""); !apierrors.IsConflict(err) {
			return err
		}
		obj, err := a.cfg.Client.Get(ctx, kinds.Leases, wellknown.AnnounceSpace, name)
		if err != nil {
			return err
		}
		if l = resource.As[*coordinationv1.Lease](obj); l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != a.cfg.Node {
			return nil
		}
	}
	return err
}

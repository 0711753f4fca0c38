package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/ipvs"
)

// A director keeps the kernel's virtual servers as the book wants them, and the addresses of kube-ipvs0. What it knows of the kernel it
// has listed, and remembers while nothing goes wrong; IPVS tells nobody what changes, so it lists everything again now and then.
type director struct {
	cfg   IPVS
	log   *slog.Logger
	conn  *ipvs.Conn
	dummy *dummy

	held    map[ipvs.Key]*held // all of the kernel's, but for those excluded
	at      map[netip.Addr]int // how many of them an address has
	ending  map[ipvs.Key]bool  // those that wait for the end of connections
	sure    bool               // the kernel has what held says
	audited time.Time
}

// held is a virtual server as the kernel has it.
type held struct {
	ipvs.Service
	ends map[netip.AddrPort]bool // false: takes no new connections, and goes with its last
}

// How often destinations that wait for their connections' end are looked at, and everything is.
const (
	drainEvery = 5 * time.Second
	auditEvery = time.Minute
)

func newDirector(cfg IPVS, log *slog.Logger) (*director, error) {
	conn, err := ipvs.Open()
	if err != nil {
		return nil, err
	}
	d, err := openDummy()
	if err != nil {
		conn.Close()
		return nil, err
	}
	r := &director{cfg: cfg, log: log, conn: conn, dummy: d}
	err = errors.Join(prepareIPVS(), d.claim(!cfg.LooseARP), conn.Timeouts(cfg.TCPTimeout, cfg.TCPFinTimeout, cfg.UDPTimeout))
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *director) close() {
	r.conn.Close()
	r.dummy.close()
}

// prepareIPVS has IPVS keep conntrack in step, without which the packet filter could give no addresses, and forget connections to
// destinations that are gone.
func prepareIPVS() error {
	const dir = "/proc/sys/net/ipv4/vs/"
	for _, file := range []string{"conntrack", "expire_nodest_conn", "expire_quiescent_template"} {
		if err := os.WriteFile(dir+file, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("prepare IPVS: %w", err)
		}
	}
	return nil
}

// observe lists what the kernel has.
func (r *director) observe() error {
	if err := r.dummy.observe(); err != nil {
		return err
	}
	all, err := r.conn.Services()
	if err != nil {
		return err
	}
	r.held, r.at, r.ending = make(map[ipvs.Key]*held, len(all)), map[netip.Addr]int{}, map[ipvs.Key]bool{}
	for _, s := range all {
		if r.foreign(s.Key) {
			continue
		}
		ends, err := r.conn.Destinations(s.Key)
		if err != nil {
			return err
		}
		h := &held{Service: s, ends: make(map[netip.AddrPort]bool, len(ends))}
		for _, e := range ends {
			h.ends[e.At] = e.Weight > 0
			if e.Weight == 0 {
				r.ending[s.Key] = true
			}
		}
		r.held[s.Key] = h
		r.at[s.Addr]++
	}
	r.sure, r.audited = true, time.Now()
	return nil
}

// foreign says that a virtual server is somebody else's: its address is excluded, or its mark not of our sort.
func (r *director) foreign(k ipvs.Key) bool {
	if k.Mark != 0 {
		return k.Mark&marked == 0
	}
	return slices.ContainsFunc(r.cfg.Exclude, func(p netip.Prefix) bool { return p.Contains(k.Addr) })
}

// raise makes what the book wants and the kernel lacks, before the packet filter leads there: virtual servers, their destinations, and
// then their addresses. Destinations that are gone take no new connections.
func (r *director) raise(b *book) (err error) {
	moved := b.moved
	if !r.sure {
		first := r.audited.IsZero()
		if err := r.observe(); err != nil {
			return err
		}
		if first {
			b.past.serve(r.held)
		}
		moved = map[ipvs.Key]bool{}
		for k := range b.servers {
			moved[k] = true
		}
		for k := range r.held {
			moved[k] = true
		}
	}
	defer func() { r.sure = r.sure && err == nil }()
	var c ipvs.Changes
	for k := range moved {
		if v, wanted := b.servers[k]; wanted && !r.foreign(k) {
			r.make(&c, k, v)
		}
	}
	if err := r.conn.Do(&c); err != nil {
		return err
	}
	for a := range b.addresses() {
		if err := r.dummy.add(a); err != nil {
			return err
		}
	}
	return nil
}

// make notes what one virtual server lacks.
func (r *director) make(c *ipvs.Changes, k ipvs.Key, v server) {
	want := ipvs.Service{Key: k, Scheduler: r.cfg.scheduler()}
	if want.Scheduler == "mh" {
		want.Flags = ipvs.SourcePort
	}
	if v.sticky > 0 {
		want.Flags, want.Timeout = want.Flags|ipvs.Persistent, uint32(v.sticky)
	}
	h := r.held[k]
	switch {
	case h == nil:
		c.Add(want)
		h = &held{ends: make(map[netip.AddrPort]bool, len(v.ends))}
		r.held[k] = h
		r.at[k.Addr]++
	case h.Service.Scheduler != want.Scheduler || h.Flags != want.Flags || want.Flags&ipvs.Persistent != 0 && h.Timeout != want.Timeout:
		c.Set(want)
	}
	h.Service = want
	wanted := make(map[netip.AddrPort]bool, len(v.ends))
	for _, e := range v.ends {
		wanted[e] = true
		open, there := h.ends[e]
		switch {
		case !there:
			c.AddTo(k, ipvs.Destination{At: e, Weight: 1})
		case !open:
			c.SetIn(k, ipvs.Destination{At: e, Weight: 1})
		}
		h.ends[e] = true
	}
	for e := range h.ends {
		if !wanted[e] {
			r.end(c, h, e, v.dgram)
		}
	}
}

// end has a destination end: at once, or with its last connection.
func (r *director) end(c *ipvs.Changes, h *held, e netip.AddrPort, now bool) {
	if now {
		c.DeleteFrom(h.Key, e)
		delete(h.ends, e)
		return
	}
	if h.ends[e] {
		c.SetIn(h.Key, ipvs.Destination{At: e})
		h.ends[e] = false
	}
	r.ending[h.Key] = true
}

// lower takes away what the book does not want any more, after the packet filter has ceased to lead there.
func (r *director) lower(b *book) (err error) {
	defer func() { r.sure = r.sure && err == nil }()
	var c ipvs.Changes
	for k, h := range r.held {
		if _, wanted := b.servers[k]; wanted {
			continue
		}
		for e := range h.ends {
			r.end(&c, h, e, k.Protocol == unix.IPPROTO_UDP)
		}
		r.ending[k] = true
	}
	if err := r.conn.Do(&c); err != nil {
		return err
	}
	return r.drain(b)
}

// drain takes away destinations whose connections are over, virtual servers that nobody wants and that have none left, and addresses
// that no virtual server has.
func (r *director) drain(b *book) error {
	var c ipvs.Changes
	for k := range r.ending {
		h, left := r.held[k], 0
		if h == nil {
			delete(r.ending, k)
			continue
		}
		now, err := r.conn.Destinations(k)
		if err != nil {
			return err
		}
		for _, e := range now {
			open, ours := h.ends[e.At]
			switch {
			case !ours || open:
			case e.Active+e.Idle > 0:
				left++
			default:
				c.DeleteFrom(k, e.At)
				delete(h.ends, e.At)
			}
		}
		if left > 0 {
			continue
		}
		delete(r.ending, k)
		if _, wanted := b.servers[k]; !wanted {
			c.Delete(k)
			delete(r.held, k)
			if r.at[k.Addr]--; r.at[k.Addr] <= 0 {
				delete(r.at, k.Addr)
			}
		}
	}
	if err := r.conn.Do(&c); err != nil {
		return err
	}
	wanted := b.addresses()
	for a := range r.dummy.have {
		if !wanted[a] && r.at[a] == 0 {
			if err := r.dummy.remove(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// due says whether it is time to list everything again.
func (r *director) due() bool { return time.Since(r.audited) > auditEvery }

// sweepIPVS takes away all that the mode ipvs of ours left in this network namespace: virtual servers, but for those of the excluded
// addresses, and the interface. Where there is no such interface, or it is another program's, nothing is touched.
func sweepIPVS(exclude []netip.Prefix) error {
	d, err := findDummy()
	if d == nil || err != nil {
		return err
	}
	defer d.close()
	conn, err := ipvs.Open()
	if err != nil && !errors.Is(err, ipvs.ErrMissing) {
		return err
	}
	if err == nil {
		defer conn.Close()
		r := &director{cfg: IPVS{Exclude: exclude}, conn: conn, dummy: d}
		all, err := conn.Services()
		if err != nil {
			return err
		}
		var c ipvs.Changes
		for _, s := range all {
			if !r.foreign(s.Key) {
				c.Delete(s.Key)
			}
		}
		if err := conn.Do(&c); err != nil {
			return err
		}
	}
	return errors.Join(restore(d.link.Attrs().Alias), d.h.LinkDel(d.link))
}

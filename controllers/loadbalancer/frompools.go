package loadbalancer

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// fromPools gives every service addresses of pools. Services keep what they have as long as they may, before others get anything.
func fromPools(w *world) (list []decision) {
	settle(w.pools)
	l := &ledger{held: map[netip.Addr][]*request{}}
	for _, p := range w.pools {
		if p.broken == "" {
			l.pools = append(l.pools, p)
		} else {
			l.broken = append(l.broken, p)
		}
	}
	list = make([]decision, len(w.services))
	requests := make([]*request, len(w.services))
	for i, s := range w.services {
		list[i] = decision{service: s}
		r, err := newRequest(s, w.spaces[s.Namespace])
		if err != nil {
			list[i].address = verdict{false, wellknown.LBRequestRefused, err.Error()}
			continue
		}
		requests[i] = r
		has := parse(s.Status.LoadBalancer.Ingress)
		if p := l.keeps(r, has); p != nil {
			list[i].give(l, r, has, p)
		}
	}
	for i, r := range requests {
		if r == nil || list[i].address.ok {
			continue
		}
		if ips, p, no := l.assign(r); p != nil {
			list[i].give(l, r, ips, p)
		} else {
			list[i].address = no
		}
	}
	l.count()
	return list
}

func (d *decision) give(l *ledger, r *request, ips []netip.Addr, p *pool) {
	l.hold(r, ips)
	d.pool = p
	for _, a := range ips {
		d.ips = append(d.ips, a.String())
	}
	d.address = verdict{true, wellknown.LBPoolAddress, fmt.Sprintf("has %s from the pool %s", strings.Join(d.ips, ", "), p.name)}
}

// parse reads the addresses of a status; nil if one can't be read.
func parse(list []corev1.LoadBalancerIngress) (out []netip.Addr) {
	for _, in := range list {
		a, err := netip.ParseAddr(in.IP)
		if err != nil {
			return nil
		}
		out = append(out, a.Unmap())
	}
	return out
}

// count fills in what the pools' statuses are to say.
func (l *ledger) count() {
	for _, p := range l.pools {
		var st poolStatus
		for a := range l.held {
			if p.has(a) && a.Is4() {
				st.AssignedIPv4++
			} else if p.has(a) {
				st.AssignedIPv6++
			}
		}
		for _, s := range p.ranges {
			free := &st.AvailableIPv4
			if s.first.Is6() {
				free = &st.AvailableIPv6
			}
			if n := s.size(); *free > *free+n {
				*free = 1<<63 - 1
			} else {
				*free += n
			}
		}
		st.AvailableIPv4 -= st.AssignedIPv4
		st.AvailableIPv6 -= st.AssignedIPv6
		p.want = st
	}
}

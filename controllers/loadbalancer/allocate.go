package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// MetalLB's annotations on Services. Those with the old prefix are read as well.
const (
	annotationIPs   = "loadBalancerIPs"
	annotationPool  = "address-pool"
	annotationShare = "allow-shared-ip"
	annotationFrom  = "metallb.io/ip-allocated-from-pool" // written by us
)

func annotation(s *corev1.Service, name string) string {
	if v, ok := s.Annotations["metallb.io/"+name]; ok {
		return v
	}
	return s.Annotations["metallb.universe.tf/"+name]
}

// A request holds what a service asks of the pools.
type request struct {
	service *corev1.Service
	space   labels.Set // of its namespace
	v6      []bool     // families, in its order
	all     bool       // every one of them, or nothing
	ips     []netip.Addr
	pool    string
	share   string // sharing key; "": the address is its own
	backend string // services that share must have the same
	ports   []port
}

// newRequest reads what a service asks for; the error says what is wrong with it.
func newRequest(s *corev1.Service, space labels.Set) (*request, error) {
	r := &request{service: s, space: space, v6: families(s), pool: annotation(s, annotationPool),
		share: annotation(s, annotationShare), ports: portsOf(s)}
	r.all = s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack
	if localOnly(s) {
		r.backend = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: s.Spec.Selector})
	}
	text := annotation(s, annotationIPs)
	if text != "" && s.Spec.LoadBalancerIP != "" {
		return nil, fmt.Errorf("spec.loadBalancerIP and the annotation metallb.io/%s exclude each other", annotationIPs)
	}
	if text = cmp.Or(text, s.Spec.LoadBalancerIP); text == "" {
		return r, nil
	}
	for _, word := range strings.Split(text, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(word))
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("%q is no IP address", strings.TrimSpace(word))
		}
		a = a.Unmap()
		if !slices.Contains(r.v6, a.Is6()) {
			return nil, fmt.Errorf("%s is not of the service's address family", a)
		}
		if slices.ContainsFunc(r.ips, func(b netip.Addr) bool { return b.Is6() == a.Is6() }) {
			return nil, fmt.Errorf("%q names two addresses of one family", text)
		}
		r.ips = append(r.ips, a)
	}
	if r.all && len(r.ips) < len(r.v6) {
		return nil, fmt.Errorf("%q names no address for every family that the service requires", text)
	}
	return r, nil
}

// A ledger says whose every address is.
type ledger struct {
	pools  []*pool // by name, none broken
	broken []*pool
	held   map[netip.Addr][]*request
}

// fits says why a service can't have an address besides those that do; "": it can.
func (l *ledger) fits(a netip.Addr, r *request) string {
	for _, h := range l.held[a] {
		other := h.service.Namespace + "/" + h.service.Name
		switch {
		case h.share == "" || r.share == "":
			return fmt.Sprintf("%s is in use by %s", a, other)
		case h.share != r.share:
			return fmt.Sprintf("%s is in use by %s, whose sharing key is another", a, other)
		case h.backend != r.backend:
			return fmt.Sprintf(
				"%s is in use by %s, which has other backends: services of externalTrafficPolicy Local share only with the same selector", a, other)
		}
		for _, p := range r.ports {
			if slices.Contains(h.ports, p) {
				return fmt.Sprintf("%s is in use by %s, which has port %d/%s too", a, other, p.number, p.proto)
			}
		}
	}
	return ""
}

func (l *ledger) hold(r *request, ips []netip.Addr) {
	for _, a := range ips {
		l.held[a] = append(l.held[a], r)
	}
}

// of is the pool that has all of the addresses, or nil.
func (l *ledger) of(ips []netip.Addr) *pool {
	for _, p := range l.pools {
		if len(ips) > 0 && !slices.ContainsFunc(ips, func(a netip.Addr) bool { return !p.has(a) }) {
			return p
		}
	}
	return nil
}

// keeps says whether a service may keep the addresses that it has, and from which pool they are; nil: it may not.
func (l *ledger) keeps(r *request, has []netip.Addr) *pool {
	p := l.of(has)
	if p == nil || r.pool != "" && r.pool != p.name || len(r.ips) > 0 && !same(r.ips, has) || !r.suits(p) {
		return nil
	}
	var six []bool
	for _, a := range has {
		if slices.Contains(six, a.Is6()) || !slices.Contains(r.v6, a.Is6()) || l.fits(a, r) != "" {
			return nil
		}
		six = append(six, a.Is6())
	}
	if r.all && len(six) < len(r.v6) {
		return nil
	}
	return p
}

func same(a, b []netip.Addr) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(x netip.Addr) bool { return !slices.Contains(b, x) })
}

func (r *request) suits(p *pool) bool {
	return p.serves(r.service.Namespace, r.space, r.service.Labels)
}

// assign chooses addresses, or says why there are none.
func (l *ledger) assign(r *request) (ips []netip.Addr, from *pool, no verdict) {
	refuse := func(format string, args ...any) ([]netip.Addr, *pool, verdict) {
		return nil, nil, verdict{false, wellknown.LBRequestRefused, fmt.Sprintf(format, args...)}
	}
	if len(r.ips) > 0 {
		p := l.of(r.ips)
		switch {
		case p == nil:
			return refuse("%v is in no one pool", r.ips)
		case r.pool != "" && r.pool != p.name:
			return refuse("%v is in the pool %s, not in %s", r.ips, p.name, r.pool)
		case !r.suits(p):
			return refuse("the pool %s of %v is not for this service", p.name, r.ips)
		}
		for _, a := range r.ips {
			if why := l.fits(a, r); why != "" {
				return refuse("%s", why)
			}
		}
		return r.ips, p, verdict{}
	}
	choice := l.choice(r)
	if r.pool != "" {
		i := slices.IndexFunc(l.pools, func(p *pool) bool { return p.name == r.pool })
		if i < 0 {
			return refuse("there is no pool %q that could be used", r.pool)
		}
		if !r.suits(l.pools[i]) {
			return refuse("the pool %s is not for this service", r.pool)
		}
		choice = l.pools[i : i+1]
	}
	if len(choice) == 0 {
		return nil, nil, verdict{false, wellknown.LBNoPool, l.noPool()}
	}
	for _, p := range choice {
		if ips := l.from(p, r); ips != nil {
			return ips, p, verdict{}
		}
	}
	var names []string
	for _, p := range choice {
		names = append(names, p.name)
	}
	return nil, nil, verdict{false, wellknown.LBPoolExhausted, "no available IPs in " + strings.Join(names, ", ")}
}

func (l *ledger) noPool() string {
	var why string
	for _, p := range l.broken {
		why += fmt.Sprintf("; %s can't be used: %s", p.name, p.broken)
	}
	if len(l.pools) == 0 {
		return "there is no IPAddressPool that could be used" + why
	}
	return fmt.Sprintf("none of %d IPAddressPools is for this service without being asked for", len(l.pools)) + why
}

// choice are the pools that may be used unasked, in order: pinned ones by priority, then those for all.
func (l *ledger) choice(r *request) (list []*pool) {
	for _, p := range l.pools {
		if p.auto && p.pinned && r.suits(p) {
			list = append(list, p)
		}
	}
	rank := func(p *pool) uint { return uint(p.priority) - 1 } // 0 is the last
	slices.SortStableFunc(list, func(a, b *pool) int { return cmp.Compare(rank(a), rank(b)) })
	for _, p := range l.pools {
		if p.auto && !p.pinned {
			list = append(list, p)
		}
	}
	return list
}

// from takes an address of each family from one pool; nil: it has not what the service needs.
func (l *ledger) from(p *pool, r *request) (ips []netip.Addr) {
	for _, six := range r.v6 {
		a := l.free(p, r, six)
		switch {
		case a.IsValid():
			ips = append(ips, a)
		case r.all || len(r.v6) == 1:
			return nil
		}
	}
	return ips
}

// free is the first address of a family that the service can have. It looks at no more addresses than are in use, and some.
func (l *ledger) free(p *pool, r *request, six bool) netip.Addr {
	for _, s := range p.ranges {
		if s.first.Is6() != six {
			continue
		}
		for a := s.first; s.has(a); a = a.Next() {
			if len(l.held[a]) > 0 && r.share == "" { // the usual case: fits would say in words whose it is
				continue
			}
			if !(p.avoidBuggy && buggy(a)) && l.fits(a, r) == "" {
				return a
			}
		}
	}
	return netip.Addr{}
}

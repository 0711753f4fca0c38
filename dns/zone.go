package dns

import (
	"context"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/resource"
)

// A key names a Service.
type key struct{ ns, name string }

// A zone is the cluster domain: an index over what Services say, kept up to date from a feed. Its methods are safe for
// concurrent use.
type zone struct {
	domain string       // without a dot at its end
	dns    []netip.Addr // of the name server's own name

	began time.Time // when the server began to answer

	mu       sync.RWMutex
	synced   bool
	serial   uint32
	services map[key]*service
	spaces   map[string]bool
	reverse  map[netip.Addr]*service // whom an address belongs to: of several the first, the others in shared
	shared   map[netip.Addr][]*service
	sources  map[netip.Addr]bool // of nodes
	ranges   map[string][]netip.Prefix

	custom atomic.Pointer[custom] // what the cluster's people added; nil: nothing
}

func newZone(domain string, dns []netip.Addr) *zone {
	z := &zone{domain: domain, dns: dns, began: time.Now()}
	z.clear()
	return z
}

func (z *zone) clear() {
	z.services, z.spaces = map[key]*service{}, map[string]bool{}
	z.reverse, z.shared = map[netip.Addr]*service{}, map[netip.Addr][]*service{}
	z.sources, z.ranges = map[netip.Addr]bool{}, map[string][]netip.Prefix{}
}

// follow keeps the zone up to date until ctx ends; ready is called when it is complete for the first time.
func (z *zone) follow(ctx context.Context, c client.Client, ready func()) error {
	feed := c.Feed(core.Services, discovery.EndpointSlices, core.Namespaces, core.Nodes)
	for first := true; ; first = false {
		b, err := feed.Next(ctx)
		if err != nil {
			return nil
		}
		z.take(b)
		if first {
			ready()
		}
	}
}

// take brings the zone to the state of a batch.
func (z *zone) take(b client.Batch) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.serial = uint32(time.Now().Unix())
	if b.Reset {
		z.clear()
		for obj := range b.Read.Each(core.Namespaces, "") {
			z.spaces[obj.GetName()] = true
		}
		for obj := range b.Read.Each(core.Services, "") {
			z.put(b.Read, key{obj.GetNamespace(), obj.GetName()})
		}
		for obj := range b.Read.Each(core.Nodes, "") {
			z.node(nil, obj)
		}
		z.customize(b.Read)
		z.synced = true
		return
	}
	seen := map[key]bool{}
	for _, c := range b.Changes {
		for _, obj := range []resource.Object{c.Old, c.New} {
			if k, ok := serviceOf(obj); ok && !seen[k] {
				seen[k] = true
				z.put(b.Read, k)
				if k == published {
					z.customize(b.Read)
				}
			}
		}
		switch c.Kind {
		case resource.Kind(core.Namespaces):
			z.space(c)
		case resource.Kind(core.Nodes):
			z.node(c.Old, c.New)
		}
	}
}

func (z *zone) space(c client.Change) {
	if c.New == nil {
		delete(z.spaces, c.Old.GetName())
		return
	}
	z.spaces[c.New.GetName()] = true
}

// serviceOf is the Service whose records an object changes.
func serviceOf(obj resource.Object) (key, bool) {
	switch o := obj.(type) {
	case *corev1.Service:
		return key{o.Namespace, o.Name}, true
	case *discoveryv1.EndpointSlice:
		name := o.Labels[discoveryv1.LabelServiceName]
		return key{o.Namespace, name}, name != ""
	}
	return key{}, false
}

// put makes the records of a Service anew.
func (z *zone) put(read resource.Reader, k key) {
	var now *service
	if s := resource.Get(read, core.Services, k.ns, k.name); s != nil {
		now = newService(s, read.ByLabel(discovery.EndpointSlices, k.ns, discoveryv1.LabelServiceName, k.name))
	}
	if old := z.services[k]; old != nil {
		for a := range old.addresses() {
			z.drop(a, old)
		}
	}
	if now == nil {
		delete(z.services, k)
		return
	}
	z.services[k] = now
	for a := range now.addresses() {
		switch first := z.reverse[a]; {
		case first == nil:
			z.reverse[a] = now
		case first != now && !slices.Contains(z.shared[a], now):
			z.shared[a] = append(z.shared[a], now)
		}
	}
}

// owners are the Services that an address belongs to.
func (z *zone) owners(a netip.Addr) iter.Seq[*service] {
	return func(yield func(*service) bool) {
		if d := z.reverse[a]; d == nil || !yield(d) {
			return
		}
		for _, d := range z.shared[a] {
			if !yield(d) {
				return
			}
		}
	}
}

// drop forgets that an address belongs to a Service.
func (z *zone) drop(a netip.Addr, d *service) {
	rest := slices.DeleteFunc(z.shared[a], func(have *service) bool { return have == d })
	if z.reverse[a] == d {
		delete(z.reverse, a)
		if len(rest) > 0 {
			z.reverse[a], rest = rest[0], rest[1:]
		}
	}
	if z.shared[a] = rest; len(rest) == 0 {
		delete(z.shared, a)
	}
}

// patience is the time after its start for which a server leaves names outside the cluster unanswered while it does not know yet what the
// cluster's people say of them. After that the cluster is out of reach, and what others say is better than nothing.
const patience = 10 * time.Second

// complete says that the zone was seen as a whole, with what people added.
func (z *zone) complete() bool {
	z.mu.RLock()
	defer z.mu.RUnlock()
	return z.synced
}

// addresses are all that have reverse names because of the Service.
func (d *service) addresses() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, a := range d.addrs {
			if !yield(a) {
				return
			}
		}
		for i := range d.ends {
			if !yield(d.ends[i].addr) {
				return
			}
		}
	}
}

// node notes whose questions are answered.
func (z *zone) node(old, now resource.Object) {
	if o, ok := old.(*corev1.Node); ok && o != nil {
		delete(z.ranges, o.Name)
		for _, a := range nodeAddrs(o) {
			delete(z.sources, a)
		}
	}
	if n, ok := now.(*corev1.Node); ok && n != nil {
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				z.ranges[n.Name] = append(z.ranges[n.Name], p)
			}
		}
		for _, a := range nodeAddrs(n) {
			z.sources[a] = true
		}
	}
}

func nodeAddrs(n *corev1.Node) (list []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			list = append(list, ip)
		}
	}
	return list
}

// shared is the address space of carriers (RFC 6598), which clouds give to nodes and pods.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// serves says whether a client is one of the cluster's: else every node would be an open resolver, good for amplification
// attacks. Private addresses are let in: pods of a foreign network have ranges that are not in Nodes.
func (z *zone) serves(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || shared.Contains(a) {
		return true
	}
	z.mu.RLock()
	defer z.mu.RUnlock()
	if z.sources[a] {
		return true
	}
	for _, list := range z.ranges {
		for _, p := range list {
			if p.Contains(a) {
				return true
			}
		}
	}
	return false
}

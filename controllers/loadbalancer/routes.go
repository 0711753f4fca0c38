package loadbalancer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// mostRoutes bounds what one node announces, to all of its peers together: the plan must fit into a Lease.
const mostRoutes = 4000

// A manner has the attributes of an announcement. Of several advertisements for one prefix the first by name gives the local
// preference, all give communities.
type manner struct {
	pref        uint32
	communities []uint32
	large       [][3]uint32
}

// A book holds what every node is to announce by BGP, and what is announced of every service. Its keys are text, as all keys that are
// sorted are here: each other type would have a sort of its own in the program.
type book struct {
	ways     map[string]map[string]*manner // by node, then "PEER PREFIX"
	services map[string][]string           // peers, sorted, by "NODE/NAMESPACE/NAME" of the service
}

func (b *book) add(node, k string, a *advert) bool {
	if b.ways[node] == nil {
		b.ways[node] = map[string]*manner{}
	}
	m := b.ways[node][k]
	if m == nil {
		if len(b.ways[node]) >= mostRoutes {
			return false
		}
		b.ways[node][k] = &manner{a.pref, slices.Clone(a.communities), slices.Clone(a.large)}
		return true
	}
	for _, c := range a.communities {
		if !slices.Contains(m.communities, c) {
			m.communities = append(m.communities, c)
		}
	}
	for _, c := range a.large {
		if !slices.Contains(m.large, c) {
			m.large = append(m.large, c)
		}
	}
	return true
}

// aggregate is the prefix by which an advertisement announces an address of a pool; the error says that it holds addresses of others.
func (a *advert) aggregate(ip netip.Addr, p *pool) (netip.Prefix, error) {
	bits := cmp.Or(a.length4, 32)
	if ip.Is6() {
		bits = cmp.Or(a.length6, 128)
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return prefix, fmt.Errorf("the aggregation length %d of %s is none of %s", bits, a.name, ip)
	}
	whole, err := parseSpan(prefix.String())
	if err != nil || !slices.ContainsFunc(p.ranges, func(s span) bool { return s.has(whole.first) && s.has(whole.last) }) {
		return prefix,
			fmt.Errorf("%s aggregates %s to %s, which reaches beyond the addresses of the pool %s: set a longer aggregationLength",
				a.name, ip, prefix, p.name)
	}
	return prefix, nil
}

// A tally counts sessions by which a service is, or would be, announced.
type tally struct {
	up, all int
	trouble string  // of the first that is not up
	shut    verdict // why a peer or prefix does not count, of the first
}

func (t *tally) refuse(reason, format string, args ...any) {
	if t.shut.reason == "" {
		t.shut = verdict{false, reason, fmt.Sprintf(format, args...)}
	}
}

// routesFor enters the routes for a service's addresses into the book.
func routesFor(w *world, d *decision, b *book) verdict {
	s := d.service
	adverts, no := advertsFor(w, d, true)
	if no.reason != "" {
		return no
	}
	if !w.ends[s].any {
		return verdict{false, wellknown.LBNoEndpoint, "no endpoint of the service serves"}
	}
	var t tally
	refused := refusals{}
	for _, n := range w.nodes {
		why := barred(n)
		if why == "" && !slices.ContainsFunc(adverts, func(a *advert) bool { return matches(a.nodes, n.Labels) }) {
			why = "that no BGPAdvertisement selects"
		}
		if why == "" && localOnly(s) && !slices.Contains(w.ends[s].on, n.Name) {
			why = noEndpoint
		}
		if why != "" {
			refused[why]++
			continue
		}
		peers := enter(w, d, adverts, n, b, &t)
		for _, name := range peers {
			t.count(n, name, w.sessions[n.Name][name])
		}
		if len(peers) > 0 {
			b.services[n.Name+"/"+s.Namespace+"/"+s.Name] = peers
		}
	}
	switch {
	case t.up > 0 && t.up < t.all:
		return verdict{true, wellknown.LBRoutes, fmt.Sprintf("%d of %d BGP sessions have the way to it; %s", t.up, t.all, t.trouble)}
	case t.up > 0:
		return verdict{true, wellknown.LBRoutes, fmt.Sprintf("%d BGP sessions have the way to it", t.up)}
	case t.all > 0:
		return verdict{false, wellknown.LBNoSession, fmt.Sprintf("none of %d BGP sessions is up: %s", t.all, t.trouble)}
	case refused.nodes() == len(w.nodes):
		return verdict{false, refused.reason(), refused.text(len(w.nodes))}
	}
	t.refuse(wellknown.LBNoPeer, "there is no BGPPeer")
	return t.shut
}

// enter enters what one node announces of a service, and returns the peers to which it does.
func enter(w *world, d *decision, adverts []*advert, n *corev1.Node, b *book, t *tally) (peers []string) {
	for _, a := range adverts {
		if !matches(a.nodes, n.Labels) {
			continue
		}
		for _, p := range w.peers {
			switch {
			case p.broken != "":
				t.refuse(wellknown.LBNoPeer, "the BGPPeer %s can't be used: %s", p.Name, p.broken)
			case !matches(p.nodes, n.Labels) || len(a.peers) > 0 && !slices.Contains(a.peers, p.Name):
				t.refuse(wellknown.LBNoPeer, "no BGPPeer is for %s on node %s", a.name, n.Name)
			case enterTo(d, a, n, p, b, t) && !slices.Contains(peers, p.Name):
				peers = append(peers, p.Name)
			}
		}
	}
	slices.Sort(peers)
	return peers
}

// enterTo enters what one node announces of a service to one peer, and says whether that is anything.
func enterTo(d *decision, a *advert, n *corev1.Node, p *peer, b *book, t *tally) (any bool) {
	for _, text := range d.ips {
		ip := netip.MustParseAddr(text)
		prefix, err := a.aggregate(ip, d.pool)
		switch {
		case err != nil:
			t.refuse(wellknown.LBAggregate, "%v", err)
		case !p.carries(ip):
			t.refuse(wellknown.LBNoPeer, "the BGPPeer %s carries no routes of the family of %s: set dualStackAddressFamily", p.Name, text)
		case !b.add(n.Name, p.Name+" "+prefix.String(), a):
			t.refuse(wellknown.LBNoPeer, "node %s announces %d routes, which is the most: set an aggregationLength", n.Name, mostRoutes)
		default:
			any = true
		}
	}
	return any
}

func (t *tally) count(n *corev1.Node, peer string, s wellknown.BGPSession) {
	t.all++
	why := s.Trouble
	switch unfit := unfit(n); {
	case s.Established && unfit == "":
		t.up++
		return
	case unfit != "":
		why = "the node is " + unfit
	case why == "":
		why = "the node's agent has not spoken of it"
	}
	t.trouble = cmp.Or(t.trouble, fmt.Sprintf("node %s, BGPPeer %s: %s", n.Name, peer, why))
}

// plans returns the plan of each node that has peers.
func (b *book) plans(w *world) map[string]wellknown.BGPPlan {
	out := map[string]wellknown.BGPPlan{}
	for _, n := range w.nodes {
		var plan wellknown.BGPPlan
		for _, p := range w.peers {
			if p.broken == "" && matches(p.nodes, n.Labels) && n.DeletionTimestamp == nil {
				plan.Peers = append(plan.Peers, p.BGPPeer)
			}
		}
		if len(plan.Peers) > 0 {
			plan.Routes = alike(b.ways[n.Name])
			out[n.Name] = plan
		}
	}
	return out
}

// alike gathers prefixes that go to a peer alike: the plan is smaller by that.
func alike(ways map[string]*manner) (out []wellknown.BGPRoute) {
	at := map[string]int{} // by peer and manner, to its place in out
	for _, k := range slices.Sorted(maps.Keys(ways)) {
		peer, prefix, _ := strings.Cut(k, " ")
		m := ways[k]
		how := fmt.Sprint(peer, m.pref, m.communities, m.large)
		i, there := at[how]
		if !there {
			i, out = len(out), append(out, wellknown.BGPRoute{Peer: peer, LocalPref: m.pref, Communities: m.communities, Large: m.large})
			at[how] = i
		}
		out[i].Prefixes = append(out[i].Prefixes, prefix)
	}
	return out
}

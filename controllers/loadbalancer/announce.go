package loadbalancer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/wellknown"
)

// mostCandidates bounds how many nodes may answer for one address: after so many failures at once the plan is another one.
const mostCandidates = 8

// advertSpec is the spec of an L2Advertisement, and that of a BGPAdvertisement.
type advertSpec struct {
	IPAddressPools         []string               `json:"ipAddressPools"`
	IPAddressPoolSelectors []metav1.LabelSelector `json:"ipAddressPoolSelectors"`
	NodeSelectors          []metav1.LabelSelector `json:"nodeSelectors"`
	ServiceSelectors       []metav1.LabelSelector `json:"serviceSelectors"`
	Interfaces             []string               `json:"interfaces"`
	PreferredNodeSelectors []struct {
		Weight     int                  `json:"weight"`
		Preference metav1.LabelSelector `json:"preference"`
	} `json:"preferredNodeSelectors"`

	AggregationLength   int      `json:"aggregationLength"`
	AggregationLengthV6 int      `json:"aggregationLengthV6"`
	LocalPref           uint32   `json:"localPref"`
	Communities         []string `json:"communities"`
	Peers               []string `json:"peers"`
}

// An advert is an L2Advertisement or BGPAdvertisement, read.
type advert struct {
	name                   string
	bgp                    bool
	pools                  []string
	poolsBy, nodes, chosen []labels.Selector // of pools, nodes, services
	interfaces             []string
	preferred              []preference
	broken                 string

	length4, length6 int // of aggregates; 0: single addresses
	pref             uint32
	communities      []uint32
	large            [][3]uint32
	peers            []string // names; none: all
}

type preference struct {
	weight int
	nodes  labels.Selector
}

func newAdvert(name string, bgp bool, spec advertSpec, names map[string]string) *advert {
	a := &advert{name: name, bgp: bgp, pools: spec.IPAddressPools, interfaces: spec.Interfaces, length4: spec.AggregationLength,
		length6: spec.AggregationLengthV6, pref: spec.LocalPref, peers: spec.Peers}
	var errs [5]error
	a.communities, a.large, errs[4] = communities(spec.Communities, names)
	a.poolsBy, errs[0] = selectors(spec.IPAddressPoolSelectors)
	a.nodes, errs[1] = selectors(spec.NodeSelectors)
	a.chosen, errs[2] = selectors(spec.ServiceSelectors)
	for _, p := range spec.PreferredNodeSelectors {
		s, err := metav1.LabelSelectorAsSelector(&p.Preference)
		errs[3] = cmp.Or(errs[3], err)
		a.preferred = append(a.preferred, preference{p.Weight, s})
	}
	if err := cmp.Or(errs[:]...); err != nil {
		a.broken = err.Error()
	}
	return a
}

// covers says that the advertisement is for addresses of the pool.
func (a *advert) covers(p *pool) bool {
	return len(a.pools)+len(a.poolsBy) == 0 || slices.Contains(a.pools, p.name) || len(a.poolsBy) > 0 && matches(a.poolsBy, p.labels)
}

// An announcement is an address and the nodes that may answer for it.
type announcement struct {
	address    netip.Addr
	services   []string
	candidates []wellknown.Candidate
}

// lease is the name of the Lease by which nodes agree about the address.
func (a announcement) lease() string {
	return "l2-" + strings.ReplaceAll(a.address.StringExpanded(), ":", "-")
}

func (a announcement) annotations() (map[string]string, error) {
	text, err := json.Marshal(a.candidates)
	return map[string]string{wellknown.AnnouncedAddress: a.address.String(), wellknown.AnnouncedCandidates: string(text),
		wellknown.AnnouncedServices: strings.Join(a.services, ",")}, err
}

// announce finds for every address that was given which nodes may answer for it and which routers learn the way, and says so in the
// decisions.
func announce(w *world, list []decision) (out []announcement, spoken *book) {
	at := map[string]int{} // address to its place in out
	spoken = &book{ways: map[string]map[string]*manner{}, services: map[string][]string{}}
	for i := range list {
		d := &list[i]
		if d.pool == nil {
			continue
		}
		candidates, says := candidatesFor(w, d)
		if d.announced = together(says, routesFor(w, d, spoken)); d.announced.says == "" {
			d.announced.says = "no L2Advertisement or BGPAdvertisement is for the pool " + d.pool.name
		}
		for _, ip := range d.ips {
			n, there := at[ip]
			if !there {
				n = len(out)
				at[ip] = n
				out = append(out, announcement{address: netip.MustParseAddr(ip), candidates: []wellknown.Candidate{}})
			}
			out[n].services = append(out[n].services, d.service.Namespace+"/"+d.service.Name)
			if len(out[n].candidates) == 0 { // of services that share an address the first with endpoints decides
				out[n].candidates = append(out[n].candidates, candidates...)
			}
		}
	}
	return out, spoken
}

// together is the verdict on an address that is announced by layer 2, by BGP, or by both.
func together(l2, bgp verdict) verdict {
	switch {
	case bgp.reason == wellknown.LBNoAdvertisement && (l2.reason != wellknown.LBNoAdvertisement || bgp.says == ""):
		return l2
	case l2.reason == wellknown.LBNoAdvertisement:
		return bgp
	case !l2.ok && bgp.ok:
		return verdict{true, bgp.reason, bgp.says + "; by layer 2: " + l2.says}
	}
	l2.says += "; by BGP: " + bgp.says
	return l2
}

// candidatesFor are the nodes that may answer for a service's addresses, in the order of preference.
func candidatesFor(w *world, d *decision) ([]wellknown.Candidate, verdict) {
	s := d.service
	adverts, no := advertsFor(w, d, false)
	if no.reason != "" {
		return nil, no
	}
	if !w.ends[s].any {
		return nil, verdict{false, wellknown.LBNoEndpoint, "no endpoint of the service serves"}
	}
	type ranked struct {
		wellknown.Candidate
		score int
		hash  [sha256.Size]byte
	}
	var list []ranked
	refused := refusals{}
	for _, n := range w.nodes {
		score, interfaces, chosen := advertised(n, adverts)
		addr := addresses([]*corev1.Node{internal(n)}, []bool{false, true})
		why := unfit(n)
		switch {
		case why != "":
		case !chosen:
			why = "that no L2Advertisement selects"
		case localOnly(s) && !slices.Contains(w.ends[s].on, n.Name):
			why = noEndpoint
		case len(addr) == 0:
			why = "without an internal address"
		}
		if why != "" {
			refused[why]++
			continue
		}
		list = append(list, ranked{wellknown.Candidate{Node: n.Name, Address: addr[0], Interfaces: interfaces}, score,
			sha256.Sum256([]byte(n.Name + "#" + d.ips[0]))})
	}
	if len(list) == 0 {
		return nil, verdict{false, refused.reason(), refused.text(len(w.nodes))}
	}
	coldsort.Func(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), bytes.Compare(a.hash[:], b.hash[:]))
	})
	var out []wellknown.Candidate
	for _, r := range list[:min(len(list), mostCandidates)] {
		out = append(out, r.Candidate)
	}
	return out, verdict{true, wellknown.LBCandidates, fmt.Sprintf("%d of %d nodes may answer for it", len(list), len(w.nodes))}
}

// internal is the node with no addresses but internal ones: heartbeats go there.
func internal(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out.Status.Addresses = append(out.Status.Addresses, a)
		}
	}
	return out
}

// advertsFor are the advertisements for a service's addresses: L2Advertisements, or BGPAdvertisements.
func advertsFor(w *world, d *decision, bgp bool) (list []*advert, no verdict) {
	no = verdict{false, wellknown.LBNoAdvertisement, ""}
	for _, a := range w.adverts {
		if a.bgp != bgp || !a.covers(d.pool) {
			continue
		}
		shared := annotation(d.service, annotationShare) != "" && len(a.chosen) > 0
		switch {
		case a.broken != "":
			no.says = a.name + " can't be read: " + a.broken
		case shared:
			no = verdict{false, wellknown.LBSharedSelector, "the service shares addresses, and " + a.name +
				" selects services: such are never announced"}
		case !matches(a.chosen, d.service.Labels):
			no.says = fmt.Sprintf("no advertisement for the pool %s selects the service", d.pool.name)
		default:
			list = append(list, a)
		}
	}
	if len(list) > 0 {
		no = verdict{}
	}
	return list, no
}

// advertised says whether one of the advertisements selects the node, how much they prefer it together, and on which interfaces it is
// to answer (none: all).
func advertised(n *corev1.Node, adverts []*advert) (score int, interfaces []string, chosen bool) {
	every := false
	for _, a := range adverts {
		if !matches(a.nodes, n.Labels) {
			continue
		}
		chosen = true
		every = every || len(a.interfaces) == 0
		interfaces = append(interfaces, a.interfaces...)
		for _, p := range a.preferred {
			if p.nodes.Matches(labels.Set(n.Labels)) {
				score += p.weight
			}
		}
	}
	if every {
		interfaces = nil
	}
	slices.Sort(interfaces)
	return score, slices.Compact(interfaces), chosen
}

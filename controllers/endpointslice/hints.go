package endpointslice

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Hints by the zones' shares of all processors: a service with the annotation service.kubernetes.io/topology-mode: Auto
// has its endpoints divided among zones so that each serves about as much as it asks for.

// overload is the factor by which an endpoint may have to serve more than its share.
const overload = 0.2

// automatic says whether the service wants its endpoints divided.
func automatic(s *corev1.Service) bool {
	mode, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !ok {
		mode = s.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// shares is each zone's share of the processors of all nodes that are ready; nil when too little is known, or there is one
// zone only. Nodes of the control plane do not count.
func shares(nodes []*corev1.Node) map[string]float64 {
	cpu, total := map[string]float64{}, 0.0
	for _, n := range nodes {
		_, control := n.Labels["node-role.kubernetes.io/control-plane"]
		_, master := n.Labels["node-role.kubernetes.io/master"]
		if control || master || !isReady(n) {
			continue
		}
		zone, amount := n.Labels[corev1.LabelTopologyZone], float64(n.Status.Allocatable.Cpu().MilliValue())
		if zone == "" || amount == 0 {
			return nil
		}
		cpu[zone] += amount
		total += amount
	}
	if len(cpu) < 2 {
		return nil
	}
	for zone := range cpu {
		cpu[zone] /= total
	}
	return cpu
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// divide gives the ready endpoints of one family their zones, and says why it can't; without hints any is used. Where one may
// as well stay with the zone that it has been given before, it does.
func divide(groups []*group, shares map[string]float64, before map[string]string) (why string) {
	ready, total := map[string]int{}, 0
	for _, g := range groups {
		for i := range g.endpoints {
			e := &g.endpoints[i]
			if e.Hints = nil; !*e.Conditions.Ready {
				continue
			}
			if e.Zone == nil {
				return "One or more endpoints do not have a zone specified"
			}
			ready[*e.Zone]++
			total++
		}
	}
	wish, why := wishes(shares, total)
	if why != "" {
		return why
	}
	give, receive := moves(wish, ready)
	for _, again := range []bool{true, false} { // first those that moved before
		for _, g := range groups {
			for i := range g.endpoints {
				e := &g.endpoints[i]
				if !*e.Conditions.Ready || e.Hints != nil || give[*e.Zone] == 0 {
					continue
				}
				to := before[endpointKey(e)]
				if !again {
					to = richest(receive)
				}
				if receive[to] > 0 && to != *e.Zone {
					give[*e.Zone]--
					receive[to]--
					e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: to}}}
				}
			}
		}
	}
	for _, g := range groups {
		for i := range g.endpoints {
			if e := &g.endpoints[i]; *e.Conditions.Ready && e.Hints == nil {
				e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: *e.Zone}}}
			}
		}
	}
	return ""
}

// wishes has the share of n endpoints that each zone should have.
func wishes(shares map[string]float64, n int) (wish map[string]float64, why string) {
	switch {
	case shares == nil:
		return nil, "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
	case len(shares) > n:
		return nil, fmt.Sprintf("Insufficient number of endpoints (%d endpoints, %d zones)", n, len(shares))
	}
	wish, left := map[string]float64{}, n
	for zone, share := range shares {
		least := math.Ceil(share * float64(n) / (1 + overload))
		wish[zone] = max(share*float64(n), least)
		left -= int(least)
	}
	if left < 0 {
		return nil, fmt.Sprintf(
			"Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (%d endpoints, %d zones)", n,
			len(shares))
	}
	return wish, ""
}

// moves has the endpoints that zones give to others, and those that they get, in whole endpoints.
func moves(wish map[string]float64, have map[string]int) (give, receive map[string]int) {
	give, receive = map[string]int{}, map[string]int{}
	over, under := map[string]float64{}, map[string]float64{}
	for zone, n := range wish {
		if d := float64(have[zone]) - n; d > 0 {
			over[zone] = d
		} else if d < 0 {
			under[zone] = -d
		}
	}
	for {
		from, to := richest(over), richest(under)
		if from == "" || to == "" || over[from] < 1 && under[to] < 1 || over[from] < 0.5 || under[to] < 0.5 {
			return give, receive
		}
		give[from]++
		receive[to]++
		over[from]--
		under[to]--
	}
}

// richest is the zone with the most, the first by name when there are several; "" when none has any.
func richest[T int | float64](zones map[string]T) (best string) {
	for _, z := range slices.Sorted(maps.Keys(zones)) {
		if zones[z] > 0 && (best == "" || zones[z] > zones[best]) {
			best = z
		}
	}
	return best
}

// given are the zones that endpoints have been given before.
func given(have []*discoveryv1.EndpointSlice) map[string]string {
	before := map[string]string{}
	for _, es := range have {
		for i := range es.Endpoints {
			if e := &es.Endpoints[i]; e.Hints != nil && len(e.Hints.ForZones) == 1 {
				before[endpointKey(e)] = e.Hints.ForZones[0].Name
			}
		}
	}
	return before
}

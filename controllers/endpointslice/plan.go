package endpointslice

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/controllers/internal/backends"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// most is the number of endpoints that a slice holds.
const most = 100

// A todo is one pass's difference between wish and world.
type todo struct{ create, update, remove []*discoveryv1.EndpointSlice }

// A draft is a slice in the making.
type draft struct {
	was       *discoveryv1.EndpointSlice // nil: new
	group     *group
	endpoints []discoveryv1.Endpoint
	touched   bool
}

// plan is pure: same service, same wish, same slices, same answer. The pods that have ended tell when that was.
func plan(s *corev1.Service, want []*group, have []*discoveryv1.EndpointSlice, ended []*corev1.Pod) (t todo) {
	var spare []*discoveryv1.EndpointSlice // match no group: to be used anew, or removed
	byGroup := map[string][]*discoveryv1.EndpointSlice{}
	for _, es := range have {
		byGroup[groupKey(es.AddressType, es.Ports)] = append(byGroup[groupKey(es.AddressType, es.Ports)], es)
	}
	var drafts []*draft
	var changed []*corev1.Pod
	looked := false
	for _, g := range want {
		key := groupKey(g.family, g.ports)
		d, unused := fit(g, byGroup[key])
		delete(byGroup, key)
		drafts, spare = append(drafts, d...), append(spare, unused...)
	}
	for _, es := range have {
		if _, left := byGroup[groupKey(es.AddressType, es.Ports)]; left {
			spare = append(spare, es)
		}
	}
	for _, d := range drafts {
		if d.was == nil { // rather than remove one slice and make another, let it become the other
			at := slices.IndexFunc(spare, func(es *discoveryv1.EndpointSlice) bool { return es.AddressType == d.group.family })
			if at >= 0 {
				d.was, d.touched = spare[at], true
				spare = slices.Delete(spare, at, at+1)
			}
		}
		es := d.slice(s)
		if d.was != nil && !d.touched && sameMeta(d.was, es) {
			continue
		}
		if !looked {
			changed, looked = news(want, have, ended), true
		}
		if backends.Trigger(&es.ObjectMeta, s, len(have) == 0, changed); d.was == nil {
			t.create = append(t.create, es)
		} else {
			t.update = append(t.update, es)
		}
	}
	t.remove = spare
	return t
}

// news are the pods that no slice tells of, or of which one tells that they are ready and they are not, or the other way.
func news(want []*group, have []*discoveryv1.EndpointSlice, ended []*corev1.Pod) (changed []*corev1.Pod) {
	told, served := map[string]bool{}, map[types.UID]bool{}
	for _, es := range have {
		for i := range es.Endpoints {
			e := &es.Endpoints[i]
			told[endpointKey(e)+serving(e)] = true
			if e.TargetRef != nil && serving(e) == "" {
				served[e.TargetRef.UID] = true
			}
		}
	}
	for _, g := range want {
		for i := range g.endpoints {
			if e := &g.endpoints[i]; !told[endpointKey(e)+serving(e)] {
				changed = append(changed, g.pods[i])
			}
		}
	}
	for _, p := range ended {
		if served[p.UID] {
			changed = append(changed, p)
		}
	}
	return changed
}

// serving is a mark of endpoints that do not serve.
func serving(e *discoveryv1.Endpoint) string {
	if s := e.Conditions.Serving; s != nil && !*s {
		return " no"
	}
	return ""
}

func groupKey(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	return string(family) + " " + portsKey(ports)
}

// fit spreads a group over the slices that it has: each keeps what it holds of it, those that change anyway take
// what is new, then the fullest that has room for the whole rest, then new ones. Slices that end up empty are unused.
func fit(g *group, have []*discoveryv1.EndpointSlice) (drafts []*draft, unused []*discoveryv1.EndpointSlice) {
	if len(g.endpoints) == 0 {
		return placeholder(g, have)
	}
	at := make(map[string]int, len(g.endpoints))
	for i := range g.endpoints {
		at[endpointKey(&g.endpoints[i])] = i
	}
	placed := make([]bool, len(g.endpoints))
	for _, es := range have {
		drafts = append(drafts, keep(g, es, at, placed))
	}
	var rest []int
	for i := range g.endpoints {
		if !placed[i] {
			rest = append(rest, i)
		}
	}
	for _, d := range drafts {
		if d.touched {
			rest = d.take(rest)
		}
	}
	if 0 < len(rest) && len(rest) < most {
		if d := roomiest(drafts, len(rest)); d != nil {
			rest = d.take(rest)
		}
	}
	for len(rest) > 0 {
		d := &draft{group: g}
		rest = d.take(rest)
		drafts = append(drafts, d)
	}
	drafts = slices.DeleteFunc(drafts, func(d *draft) bool {
		if len(d.endpoints) == 0 {
			unused = append(unused, d.was)
		}
		return len(d.endpoints) == 0
	})
	return drafts, unused
}

// placeholder is one empty slice, which tells that the service is looked after.
func placeholder(g *group, have []*discoveryv1.EndpointSlice) ([]*draft, []*discoveryv1.EndpointSlice) {
	if len(have) == 0 {
		return []*draft{{group: g}}, nil
	}
	return []*draft{{was: have[0], group: g, touched: len(have[0].Endpoints) > 0}}, slices.Clone(have[1:])
}

// keep drafts a slice with those of its endpoints that are still wanted, as they are wanted now.
func keep(g *group, es *discoveryv1.EndpointSlice, at map[string]int, placed []bool) *draft {
	d := &draft{was: es, group: g}
	for i := range es.Endpoints {
		e := &es.Endpoints[i]
		n, wanted := at[endpointKey(e)]
		if !wanted || placed[n] {
			d.touched = true
			continue
		}
		placed[n] = true
		if !same(e, &g.endpoints[n]) {
			d.touched = true
		}
		d.endpoints = append(d.endpoints, g.endpoints[n])
	}
	return d
}

// take fills the draft up with endpoints of the group and returns those left over.
func (d *draft) take(rest []int) []int {
	n := min(most-len(d.endpoints), len(rest))
	for _, i := range rest[:max(n, 0)] {
		d.endpoints = append(d.endpoints, d.group.endpoints[i])
		d.touched = true
	}
	return rest[max(n, 0):]
}

// roomiest is the fullest draft that still has room for n more.
func roomiest(drafts []*draft, n int) (best *draft) {
	for _, d := range drafts {
		if len(d.endpoints)+n <= most && (best == nil || len(d.endpoints) > len(best.endpoints)) {
			best = d
		}
	}
	return best
}

// slice is the object that the draft describes.
func (d *draft) slice(s *corev1.Service) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: prefix(s.Name),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, kinds.Services.GVK)}}}
	if d.was != nil {
		es = resource.Clone(d.was)
		if !metav1.IsControlledBy(es, s) {
			es.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s, kinds.Services.GVK)}
		}
	}
	es.Labels = labelsOf(s)
	es.AddressType, es.Ports, es.Endpoints = d.group.family, d.group.ports, d.endpoints
	return es
}

// prefix leaves room for the suffix that makes a name of it.
func prefix(service string) string {
	const longest = 63 - 6
	return service[:min(len(service), longest)] + "-"
}

func sameMeta(a, b *discoveryv1.EndpointSlice) bool {
	return maps.Equal(a.Labels, b.Labels) && slices.EqualFunc(a.OwnerReferences, b.OwnerReferences,
		func(x, y metav1.OwnerReference) bool { return x.UID == y.UID })
}

// endpointKey tells endpoints apart: the pod, and the addresses in case it got others.
func endpointKey(e *discoveryv1.Endpoint) string {
	uid := ""
	if e.TargetRef != nil {
		uid = string(e.TargetRef.UID)
	}
	return uid + " " + strings.Join(e.Addresses, " ")
}

// same compares all that a pod's endpoint tells; reflection would cost ten times as much.
func same(a, b *discoveryv1.Endpoint) bool {
	return equal(a.Conditions.Ready, b.Conditions.Ready) && equal(a.Conditions.Serving, b.Conditions.Serving) &&
		equal(a.Conditions.Terminating, b.Conditions.Terminating) && equal(a.Hostname, b.Hostname) &&
		equal(a.NodeName, b.NodeName) && equal(a.Zone, b.Zone) && equal(a.TargetRef, b.TargetRef) && sameHints(a.Hints, b.Hints)
}

func sameHints(a, b *discoveryv1.EndpointHints) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.ForZones, b.ForZones) && slices.Equal(a.ForNodes, b.ForNodes)
}

func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

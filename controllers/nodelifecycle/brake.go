package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// How fast nodes of a zone get the taints that cost their pods: one in ten seconds; one in a hundred when most of a large
// zone is lost, none of a small one, for then the network is more likely to blame than the nodes.
const (
	normalPace = 10 * time.Second
	slowPace   = 100 * time.Second
	largeZone  = 50   // nodes
	mostLost   = 0.55 // of a zone
	fewLost    = 2    // that many are no disruption
)

// A health is the state of a zone.
type health struct{ ready, lost int }

// pace is the time to wait between two nodes of the zone; 0: none may be tainted now.
func (h health) pace(everywhere bool) time.Duration {
	switch total := h.ready + h.lost; {
	case everywhere:
		return 0 // nothing is left where pods could go: it is we who are cut off
	case h.ready == 0: // the zone is gone, others are there
		return normalPace
	case h.lost <= fewLost || float64(h.lost) < mostLost*float64(total):
		return normalPace
	case total > largeZone:
		return slowPace
	}
	return 0
}

// bucket lets one node pass, then no other for a pace. The same one may try again: its write may have failed.
type bucket struct {
	last time.Time
	who  string
}

// brake takes NoExecute taints off the plan that may not be added now, and says when to ask again. When all
// nodes are lost it takes off those that are there too.
func (w *watch) brake(read resource.Reader, n, next *corev1.Node, now time.Time) time.Duration {
	if !slices.ContainsFunc(next.Spec.Taints, expels) {
		return 0
	}
	zone := zoneOf(n)
	h, everywhere := survey(read, zone)
	had := slices.ContainsFunc(n.Spec.Taints, expels)
	if everywhere {
		next.Spec.Taints = slices.DeleteFunc(next.Spec.Taints, expels)
		return w.grace
	}
	if had {
		return 0 // it passed before; which of the two taints it has may change
	}
	pace := h.pace(false)
	wait := w.pass(zone, n.Name, pace, now)
	if wait == 0 {
		return 0
	}
	next.Spec.Taints = slices.DeleteFunc(next.Spec.Taints, expels)
	return wait
}

// pass takes a turn in the zone, or says how long to wait for one.
func (w *watch) pass(zone, node string, pace time.Duration, now time.Time) time.Duration {
	if pace == 0 {
		return w.grace
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.limit[zone]
	if b == nil {
		b = &bucket{}
		w.limit[zone] = b
	}
	if left := b.last.Add(pace).Sub(now); left > 0 && b.who != node {
		return left
	}
	b.last, b.who = now, node
	return 0
}

// expels says whether a taint is one of ours that costs pods.
func expels(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
}

func zoneOf(n *corev1.Node) string {
	return n.Labels[corev1.LabelTopologyRegion] + "/" + n.Labels[corev1.LabelTopologyZone]
}

// survey counts the zone's nodes, and says whether no zone has a ready one.
func survey(read resource.Reader, zone string) (h health, everywhere bool) {
	everywhere = true
	for obj := range read.Each(kinds.Nodes, "") {
		n := obj.(*corev1.Node)
		ready := find(n, corev1.NodeReady)
		up := ready != nil && ready.Status == corev1.ConditionTrue
		everywhere = everywhere && !up
		switch {
		case zoneOf(n) != zone:
		case up:
			h.ready++
		default:
			h.lost++
		}
	}
	return h, everywhere
}

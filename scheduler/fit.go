package scheduler

import (
	"fmt"
	"slices"
)

// checkFit is the plugin NodeResourcesFit: what the pod asks for is free. All that is short is named.
func checkFit(o *nodeVerdicts, s *nodeInfo) *refusal {
	var short uint64 // bit 0: pods, bit n+1: resource n
	hopeless := false
	if alloc, used := s.room(resPods); used+1 > alloc {
		short = 1
	}
	for _, a := range o.need.asks {
		alloc, used := s.room(a.res)
		if a.amount > alloc-used && !o.ignores(a.res) && !o.devicesFor(a.res, alloc) {
			short |= 1 << (min(a.res, 61) + 1)
			hopeless = hopeless || a.amount > alloc
		}
	}
	if short == 0 {
		return nil
	}
	return o.shortOf(short, hopeless)
}

// ignores tells whether the profile leaves a resource to somebody else.
func (o *nodeVerdicts) ignores(res int) bool { return slices.Contains(o.ignored, res) }

// devicesFor tells whether the resource is devices on such a node: then the plugin DynamicResources looks for them.
func (o *nodeVerdicts) devicesFor(res int, alloc int64) bool {
	return !o.noDevices && o.st.inventory.byDevices(res, alloc)
}

// shortOf returns the one refusal for this shortage, so that a failing pod costs no memory per node.
func (o *nodeVerdicts) shortOf(short uint64, hopeless bool) *refusal {
	key := short << 1
	if hopeless {
		key |= 1
	}
	r := o.short[key]
	if r != nil {
		return r
	}
	r = &refusal{plugin: nodeResourcesFit, unresolvable: hopeless}
	if short&1 != 0 {
		r.reasons = append(r.reasons, "Too many pods")
	}
	for _, a := range o.need.asks {
		if short&(1<<(min(a.res, 61)+1)) != 0 && !o.ignores(a.res) {
			r.reasons = append(r.reasons, fmt.Sprintf("Insufficient %s", o.st.resources.list[a.res]))
		}
	}
	if o.short == nil {
		o.short = map[uint64]*refusal{}
	}
	o.short[key] = r
	return r
}

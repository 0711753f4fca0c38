package scheduler

import "fmt"

// checkFit is the plugin NodeResourcesFit: what the pod asks for is free. All that is short is named.
func checkFit(o *outlook, s *slot) *refusal {
	var short uint64 // bit 0: pods, bit n+1: resource n
	hopeless := false
	if alloc, used := s.room(resPods); used+1 > alloc {
		short = 1
	}
	for _, a := range o.need.asks {
		alloc, used := s.room(a.res)
		if a.amount > alloc-used {
			short |= 1 << (min(a.res, 61) + 1)
			hopeless = hopeless || a.amount > alloc
		}
	}
	if short == 0 {
		return nil
	}
	return o.shortOf(short, hopeless)
}

// shortOf returns the one refusal for this shortage, so that a failing pod costs no memory per node.
func (o *outlook) shortOf(short uint64, hopeless bool) *refusal {
	key := short << 1
	if hopeless {
		key |= 1
	}
	r := o.short[key]
	if r != nil {
		return r
	}
	r = &refusal{plugin: nodeResourcesFit, hopeless: hopeless}
	if short&1 != 0 {
		r.reasons = append(r.reasons, "Too many pods")
	}
	for _, a := range o.need.asks {
		if short&(1<<(min(a.res, 61)+1)) != 0 {
			r.reasons = append(r.reasons, fmt.Sprintf("Insufficient %s", o.st.names.list[a.res]))
		}
	}
	if o.short == nil {
		o.short = map[uint64]*refusal{}
	}
	o.short[key] = r
	return r
}

// scoreFit ranks nodes by how much would be left of them (LeastAllocated).
func scoreFit(o *outlook, s *slot) int64 {
	return o.share(s, func(alloc, used int64) int64 { return alloc - used })
}

// scorePacked ranks nodes by how much of them would be used (MostAllocated).
func scorePacked(o *outlook, s *slot) int64 {
	return o.share(s, func(_, used int64) int64 { return used })
}

// share is the mean over cpu and memory of what is asked about a node with the pod on it, 100 being all of it.
func (o *outlook) share(s *slot, of func(alloc, used int64) int64) int64 {
	sum, n := int64(0), int64(0)
	for _, x := range [2]struct{ alloc, used int64 }{
		{s.alloc[resCPU], s.fairCPU + o.need.fairCPU}, {s.alloc[resMemory], s.fairMem + o.need.fairMem}} {
		if x.alloc == 0 {
			continue
		}
		n++
		if x.used <= x.alloc {
			sum += of(x.alloc, x.used) * maxScore / x.alloc
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

package scheduler

import "math"

// scoreBalanced is the plugin NodeResourcesBalancedAllocation: cpu and memory should fill up at one pace. Pods
// that ask for neither are not ranked by it.
func scoreBalanced(o *outlook, s *slot) int64 {
	if o.need.cpu == 0 && o.need.mem == 0 {
		return 0
	}
	cpu, mem := s.alloc[resCPU], s.alloc[resMemory]
	if cpu == 0 || mem == 0 {
		return maxScore
	}
	x := min(1, float64(s.used[resCPU]+o.need.cpu)/float64(cpu))
	y := min(1, float64(s.used[resMemory]+o.need.mem)/float64(mem))
	return int64((1 - math.Abs(x-y)/2) * maxScore)
}

package scheduler

import "math"

// scoreBalanced is the plugin NodeResourcesBalancedAllocation: cpu and memory should fill up at one pace. Pods
// that ask for neither are not ranked by it.
func scoreBalanced(c *class, s *slot) int64 {
	if c.need.cpu == 0 && c.need.mem == 0 {
		return 0
	}
	cpu, mem := s.alloc[resCPU], s.alloc[resMemory]
	if cpu == 0 || mem == 0 {
		return maxScore
	}
	x := min(1, float64(s.used[resCPU]+c.need.cpu)/float64(cpu))
	y := min(1, float64(s.used[resMemory]+c.need.mem)/float64(mem))
	return int64((1 - math.Abs(x-y)/2) * maxScore)
}

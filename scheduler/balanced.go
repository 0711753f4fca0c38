package scheduler

import "math"

// scoreBalanced is the plugin NodeResourcesBalancedAllocation: the resources of a node should fill up at one pace, and a
// pod is worth the more the better it makes that. Pods that ask for nothing are not ranked by it.
func scoreBalanced(o *nodeVerdicts, s *nodeInfo) int64 {
	asks := int64(0)
	for i := range o.evenBy {
		asks += o.evenBy[i].ask
	}
	if asks == 0 {
		return 0
	}
	return maxScore/2 + (maxScore/2+evenness(o.evenBy, s, 1)-evenness(o.evenBy, s, 0))/2
}

// evenness compares the used shares of the resources with n pods more: 100 when all are the same.
func evenness(list []ranked, s *nodeInfo, n int64) int64 {
	var few [2]float64
	shares, sum := few[:0], 0.0
	for i := range list {
		alloc, used := list[i].on(s)
		if alloc == 0 {
			continue
		}
		share := min(1, float64(used+n*list[i].ask)/float64(alloc))
		shares, sum = append(shares, share), sum+share
	}
	deviation := 0.0
	switch {
	case len(shares) == 2:
		deviation = math.Abs(shares[0]-shares[1]) / 2
	case len(shares) > 2:
		mean := sum / float64(len(shares))
		for _, x := range shares {
			deviation += (x - mean) * (x - mean)
		}
		deviation = math.Sqrt(deviation / float64(len(shares)))
	}
	return int64((1 - deviation) * maxScore)
}

package scheduler

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A Strategy tells the plugin NodeResourcesFit to rank nodes. The zero value is upstream's: where least is used.
type Strategy struct {
	Type  string   // LeastAllocated, which is "", MostAllocated, or RequestedToCapacityRatio
	Of    []Weight // resources that count; nil: cpu and memory alike
	Shape []Point  // of RequestedToCapacityRatio
}

// The types of strategies.
const (
	leastAllocated = "LeastAllocated"
	mostAllocated  = "MostAllocated"
	byRatio        = "RequestedToCapacityRatio"
)

// A Weight is a resource and its weight.
type Weight struct {
	Name   corev1.ResourceName `json:"name"`
	Weight int64               `json:"weight"`
}

// A Point says what a node is worth, 0 to 10, when so many percent of it are used. Between points it goes straight.
type Point struct {
	Utilization int64 `json:"utilization"`
	Score       int64 `json:"score"`
}

// maxPoint is the best score of a Point.
const maxPoint = 10

func (s *Strategy) check() error {
	switch s.Type {
	case "", leastAllocated, mostAllocated:
		if len(s.Shape) > 0 {
			return fmt.Errorf("a shape is for %s alone", byRatio)
		}
	case byRatio:
		if len(s.Shape) == 0 {
			return fmt.Errorf("%s needs a shape: at least one point", byRatio)
		}
	default:
		return fmt.Errorf("scoringStrategy %s: use %s, %s or %s", s.Type, leastAllocated, mostAllocated, byRatio)
	}
	if err := checkShape(s.Shape); err != nil {
		return err
	}
	return checkWeights(s.Of)
}

func checkShape(list []Point) error {
	for i, p := range list {
		if p.Utilization < 0 || p.Utilization > 100 || p.Score < 0 || p.Score > maxPoint || i > 0 && p.Utilization <= list[i-1].Utilization {
			return fmt.Errorf("a shape's points go up in utilization, 0 to 100, each with a score from 0 to %d", maxPoint)
		}
	}
	return nil
}

func checkWeights(list []Weight) error {
	for _, w := range list {
		if w.Name == "" || w.Weight < 1 || w.Weight > 100 {
			return fmt.Errorf("resource %q counts for %d: a name and a weight from 1 to 100 are needed", w.Name, w.Weight)
		}
	}
	return nil
}

// worth is a share of a resource as a score, by one of the strategies.
func (s *Strategy) worth(alloc, used int64) int64 {
	switch s.Type {
	case mostAllocated:
		return min(used, alloc) * maxScore / alloc
	case byRatio:
		percent := int64(100)
		if used <= alloc {
			percent = used * 100 / alloc
		}
		return s.at(percent)
	}
	if used > alloc {
		return 0
	}
	return (alloc - used) * maxScore / alloc
}

// at is the shape's value at a percentage.
func (s *Strategy) at(percent int64) int64 {
	const scale = maxScore / maxPoint
	for i, p := range s.Shape {
		if percent > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score * scale
		}
		from := s.Shape[i-1]
		return from.Score*scale + (p.Score-from.Score)*scale*(percent-from.Utilization)/(p.Utilization-from.Utilization)
	}
	return s.Shape[len(s.Shape)-1].Score * scale
}

// A ranked resource counts when nodes are ranked.
type ranked struct {
	res     int
	weight  int64
	ask     int64 // the pods' own
	nonZero bool  // of cpu and memory counts the default of containers that ask for none
}

// rank lists which of the weighted resources nodes are scored by: those that the pods ask for, and those that every node has.
func (o *nodeVerdicts) rank(of []Weight, fair bool) (list []ranked) {
	if of == nil {
		of = []Weight{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}
	}
	for _, w := range of {
		r := ranked{res: o.st.resources.of(w.Name), weight: w.Weight, nonZero: fair}
		if i := slices.IndexFunc(o.need.asks, func(a ask) bool { return a.res == r.res }); i >= 0 {
			r.ask = o.need.asks[i].amount
		} else if r.res > resPods {
			continue
		}
		switch {
		case fair && r.res == resCPU:
			r.ask = o.need.nonZeroCPU
		case fair && r.res == resMemory:
			r.ask = o.need.nonZeroMem
		}
		list = append(list, r)
	}
	return list
}

// on returns how much of the resource the node has, and how much of that is used without the pod.
func (r *ranked) on(s *nodeInfo) (alloc, used int64) {
	alloc, used = s.room(r.res)
	switch {
	case r.nonZero && r.res == resCPU:
		used = s.nonZeroCPU
	case r.nonZero && r.res == resMemory:
		used = s.nonZeroMem
	}
	return alloc, used
}

// scoreFit is the score of the plugin NodeResourcesFit.
func scoreFit(o *nodeVerdicts, s *nodeInfo) int64 {
	strategy := o.strategy
	sum, weights := int64(0), int64(0)
	for i := range o.fitBy {
		r := &o.fitBy[i]
		alloc, used := r.on(s)
		if alloc == 0 {
			continue
		}
		v := strategy.worth(alloc, used+r.ask)
		if v == 0 && strategy.Type == byRatio {
			continue // what is worth nothing does not count
		}
		sum += v * r.weight
		weights += r.weight
	}
	switch {
	case weights == 0:
		return 0
	case strategy.Type == byRatio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

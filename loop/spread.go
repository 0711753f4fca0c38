package loop

import "time"

// spreadBounds are the sizes by which a Spread counts: upstream's queues of work have the like.
var spreadBounds = [...]time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond,
	20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, time.Minute}

// A Spread counts durations by size. Its owner guards it.
type Spread struct {
	Count int64
	Sum   time.Duration

	counts [len(spreadBounds)]int64 // by the smallest bound that a duration does not exceed
}

func (s *Spread) add(d time.Duration) {
	s.Count++
	s.Sum += d
	for i, bound := range spreadBounds {
		if d <= bound {
			s.counts[i]++
			return
		}
	}
}

// Buckets are, by a bound in seconds, how many durations did not exceed it.
func (s *Spread) Buckets() map[float64]uint64 {
	out, sum := make(map[float64]uint64, len(s.counts)), uint64(0)
	for i, n := range s.counts {
		sum += uint64(n)
		out[spreadBounds[i].Seconds()] = sum
	}
	return out
}

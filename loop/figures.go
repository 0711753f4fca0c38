package loop

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Figure is a metric that a loop keeps, under the name that upstream gives it.
type Figure struct {
	Name, Help string
	Labels     []string
	Bounds     []float64 // of a histogram; none: it is a counter
}

// Doubling returns n bounds, each twice the one before.
func Doubling(from float64, n int) (bounds []float64) {
	for range n {
		bounds = append(bounds, from)
		from *= 2
	}
	return bounds
}

// Figures are those of the loops of one process. Nil ones are of a process that tells nobody.
type Figures struct {
	mu   sync.Mutex
	list []*Series
	by   map[string]*Series
}

// A Series is a figure with the values of its labels.
type Series struct {
	Of     *Figure
	Labels []string

	n, sum atomic.Uint64 // sum: the bits of a float64
	counts []atomic.Uint64
}

// Series returns the series of a figure. Who counts often keeps it.
func (f *Figures) Series(of *Figure, labels ...string) *Series {
	if f == nil {
		return nil
	}
	key := of.Name + "\x00" + strings.Join(labels, "\x00")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.by[key]
	if s == nil {
		s = &Series{Of: of, Labels: labels, counts: make([]atomic.Uint64, len(of.Bounds))}
		if f.by == nil {
			f.by = map[string]*Series{}
		}
		f.by[key], f.list = s, append(f.list, s)
	}
	return s
}

// All returns all series of which there is something to tell: of those without labels, that nothing happened.
func (f *Figures) All() []*Series {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.list), func(s *Series) bool { return len(s.Labels) > 0 && s.n.Load() == 0 })
}

// Add counts v, or in a histogram a thing of size v. It can be called of no series.
func (s *Series) Add(v float64) {
	if s == nil {
		return
	}
	if i, _ := slices.BinarySearch(s.Of.Bounds, v); i < len(s.counts) {
		s.counts[i].Add(1)
	}
	for old := s.sum.Load(); !s.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)); {
		old = s.sum.Load()
	}
	s.n.Add(1)
}

// Count returns how often something was counted.
func (s *Series) Count() uint64 { return s.n.Load() }

// Sum returns the sum of all that was counted.
func (s *Series) Sum() float64 { return math.Float64frombits(s.sum.Load()) }

// Buckets are, by a bound, how many things did not exceed it.
func (s *Series) Buckets() map[float64]uint64 {
	out, sum := make(map[float64]uint64, len(s.counts)), uint64(0)
	for i := range s.counts {
		sum += s.counts[i].Load()
		out[s.Of.Bounds[i]] = sum
	}
	return out
}

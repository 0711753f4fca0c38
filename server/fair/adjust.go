package fair

import (
	"math"
	"time"
)

// The rules of lending, upstream's (KEP-1040): how often limits are looked at, and how slowly a high demand is forgotten
// in each such period.
const (
	adjustEvery = 10 * time.Second
	forget      = 0.977
)

// An integral sums up a value over time.
type integral struct {
	value, high   float64
	area, squares float64
	since, last   time.Time
}

// A demand is the value of an integral over time.
type demand struct{ high, mean, deviation float64 }

// set changes the value.
func (d *integral) set(now time.Time, value float64) {
	d.sum(now)
	d.value, d.high = value, max(d.high, value)
}

func (d *integral) sum(now time.Time) {
	if d.since.IsZero() {
		d.since = now
	} else if took := now.Sub(d.last).Seconds(); took > 0 {
		d.area += took * d.value
		d.squares += took * d.value * d.value
	}
	d.last = now
}

// reset tells the period that ends and begins a new one.
func (d *integral) reset(now time.Time) demand {
	d.sum(now)
	out := demand{high: d.high, mean: d.value}
	if took := now.Sub(d.since).Seconds(); took > 0 {
		out.mean = d.area / took
		out.deviation = math.Sqrt(max(0, d.squares/took-out.mean*out.mean))
	}
	*d = integral{value: d.value, high: d.value, since: now, last: now}
	return out
}

// lend adapts the limits when it is time to. There is no timer: nobody needs other limits while no request comes.
func (f *Fair) lend(now time.Time) {
	due := f.due.Load()
	if now.UnixNano() < due || !f.due.CompareAndSwap(due, now.Add(adjustEvery).UnixNano()) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.adjusted.IsZero() {
		f.adjust(now, max(1, int(now.Sub(f.adjusted)/adjustEvery)))
	}
	f.adjusted = now
}

// adjust gives each level a limit between its bounds, by what it wanted in the last period. It needs Fair.mu.
func (f *Fair) adjust(now time.Time, periods int) {
	var shared []*level
	left, leastSum, wantedSum, total := 0, 0, 0, 0
	least := map[*level]int{} // what a level gets in any case
	for _, l := range f.levels {
		l.mu.Lock()
		l.stats = l.demand.reset(now)
		free := l.exempt
		l.mu.Unlock()
		envelope := l.stats.mean + l.stats.deviation
		l.smoothed = max(envelope, envelope+(l.smoothed-envelope)*math.Pow(forget, float64(periods)))
		total += l.nominal
		if free {
			least[l] = max(l.least, int(l.stats.high))
			left -= least[l]
			l.change(least[l], now)
			continue
		}
		least[l] = max(l.least, min(l.nominal, int(l.stats.high)))
		leastSum, wantedSum = leastSum+l.least, wantedSum+least[l]
		shared = append(shared, l)
	}
	left += total
	switch {
	case left <= leastSum:
		for _, l := range shared {
			l.change(l.least, now)
		}
	case left <= wantedSum:
		part := float64(left-leastSum) / float64(wantedSum-leastSum)
		for _, l := range shared {
			l.change(l.least+int(math.Round(float64(least[l]-l.least)*part)), now)
		}
	default:
		for l, seats := range allot(float64(left), shared, least) {
			l.change(seats, now)
		}
	}
}

func (l *level) change(seats int, now time.Time) {
	if seats != l.current {
		l.current = seats
		l.relimit(seats, now)
	}
}

// allot shares out seats so that each level gets the same multiple of what it wanted, within its bounds. The multiple is
// found by halving: what it comes to rises with it.
func allot(seats float64, list []*level, least map[*level]int) map[*level]int {
	give := func(l *level, times float64) float64 {
		low := float64(least[l])
		want := max(low, l.smoothed, 0.001)
		return max(low, min(float64(max(l.largest, least[l])), times*want))
	}
	low, high := 0.0, 1e9
	for range 100 {
		mid := (low + high) / 2
		sum := 0.0
		for _, l := range list {
			sum += give(l, mid)
		}
		if sum > seats {
			high = mid
		} else {
			low = mid
		}
	}
	out := make(map[*level]int, len(list))
	for _, l := range list {
		out[l] = int(math.Round(give(l, low)))
	}
	return out
}

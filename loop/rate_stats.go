package loop

import (
	"slices"
	"time"
)

// rateStats counts a loop's reconciles: how long the newest took, how many there were in each ten seconds of the last minute, and how they
// ended. Its owner guards it.
type rateStats struct {
	took   [256]time.Duration // a ring of the newest
	looks  int                // reconciles since the start
	counts [6]int64
	slot   int64 // the ten seconds that the newest count is of

	done, failed int64
	adds         int64     // keys that became due
	waited       Spread    // how long they were, before a look
	worked       Spread    // how long looks took
	good         time.Time // the newest end without error
	err          string
	errAt        time.Time
	errs         int64 // in a row, over all keys
}

const slotLength = 10 * time.Second

func (p *rateStats) add(now time.Time, took time.Duration, err error) {
	p.took[p.looks%len(p.took)] = took
	p.looks++
	p.worked.add(took)
	p.turn(now)
	p.counts[p.slot%int64(len(p.counts))]++
	p.done++
	if err == nil {
		p.good, p.errs = now, 0
		return
	}
	p.failed++
	p.errs++
	p.err, p.errAt = err.Error(), now
}

// turn empties the counts of the time since the newest one.
func (p *rateStats) turn(now time.Time) {
	slot := now.UnixNano() / int64(slotLength)
	n := int64(len(p.counts))
	for i := max(p.slot+1, slot-n+1); i <= slot; i++ {
		p.counts[i%n] = 0
	}
	p.slot = max(p.slot, slot)
}

// fill writes the figures into the stats.
func (p *rateStats) fill(s *Stats, now time.Time) {
	p.turn(now)
	var sum int64
	for _, c := range p.counts {
		sum += c
	}
	s.Rate = float64(sum) / (time.Duration(len(p.counts)) * slotLength).Seconds()
	if n := min(p.looks, len(p.took)); n > 0 {
		took := slices.Clone(p.took[:n])
		slices.Sort(took)
		s.P99 = took[(n*99-1)/100]
	}
	s.Done, s.Failed, s.LastGood, s.LastErr, s.LastFail, s.ErrRow = p.done, p.failed, p.good, p.err, p.errAt, p.errs
	s.Adds, s.Waited, s.Worked = max(p.adds, p.done), p.waited, p.worked
}

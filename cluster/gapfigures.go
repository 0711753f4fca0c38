package cluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// gapFigures count what has not converged. Who scrapes them asks, as others do.
type gapFigures struct{ of *lookout }

var (
	gapsNow   = desc("kloop_gaps", "Objects that are not what they should be.", "owner", "cause", "state")
	fightsNow = desc("kloop_fights", "Fields that are set back and forth.")
)

// maxScrape bounds how long a scrape waits for what is to be looked at.
const maxScrape = 5 * time.Second

// Describe implements prometheus.Collector.
func (f gapFigures) Describe(to chan<- *prometheus.Desc) { to <- gapsNow; to <- fightsNow }

// Collect implements prometheus.Collector.
func (f gapFigures) Collect(to chan<- prometheus.Metric) {
	ctx, stop := context.WithTimeout(context.Background(), maxScrape)
	defer stop()
	if f.of.board.Refresh(ctx, convergence.Gaps) != nil || f.of.board.Refresh(ctx, convergence.Fights) != nil {
		return // no figure is better than a false one
	}
	count := map[[3]string]int{}
	for obj := range f.of.Read().Each(convergence.Gaps, "") {
		if g, ok := obj.(*convergence.Gap); ok && g.State != converge.Resting {
			count[[3]string{g.Owner, g.Cause, g.State}]++
		}
	}
	for key, n := range count {
		gauge(to, gapsNow, float64(n), key[:]...)
	}
	fights := 0
	for range f.of.Read().Each(convergence.Fights, "") {
		fights++
	}
	gauge(to, fightsNow, float64(fights))
}

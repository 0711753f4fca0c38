package cluster

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// gapFigures count what has not converged. A scrape has the gaps brought up to date, as any other reader has.
type gapFigures struct{ of *explainer }

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
	var list []*convergence.Gap
	for obj := range f.of.Read().Each(convergence.Gaps, "") {
		if g, ok := obj.(*convergence.Gap); ok {
			list = append(list, g)
		}
	}
	for key, n := range seriesOf(list) {
		gauge(to, gapsNow, float64(n), key[:]...)
	}
	fights := 0
	for range f.of.Read().Each(convergence.Fights, "") {
		fights++
	}
	gauge(to, fightsNow, float64(fights))
}

// Series that a scrape has at most; owners beyond are counted together.
const (
	maxSeries   = 500
	otherOwners = "others"
)

// seriesOf counts gaps by owner, cause and state. Owners are named without the node that they are on: what is scraped does not grow
// with the cluster.
func seriesOf(list []*convergence.Gap) map[[3]string]int {
	count := map[[3]string]int{}
	for _, g := range list {
		if g.State == converge.Resting {
			continue
		}
		owner, _, _ := strings.Cut(g.Owner, " on ")
		key := [3]string{owner, g.Cause, g.State}
		if count[key] == 0 && len(count) >= maxSeries {
			key[0] = otherOwners
		}
		count[key]++
	}
	return count
}
